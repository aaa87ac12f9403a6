// The frozen outcome of planning. Everything a run needs to know is here; a run only adds pointers.
#ifndef ATTEND_PLAN_PLAN_IMPL_H_
#define ATTEND_PLAN_PLAN_IMPL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "attend/plan.h"
#include "engine/base/checked.h"
#include "engine/kernels/kernel_set.h"
#include "engine/plan/layer.h"
#include "engine/plan/prefetch_rules.h"

namespace attend::detail {

// One decision and its reason, a line of explain().
struct Reason {
  std::string what;
  std::string text;
};

// For reasons: "1 item", "2 items".
inline std::string count_text(std::size_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

// How queries meet their keys.
enum class Pooling {
  // Key tile by key tile with online softmax: scores of one tile exist at a time. Weights, where they are asked for,
  // are scored again once the sums of their row are known.
  kFused,
  // All scores of a row at once, softmax, then pooling: by the weights as they are returned or, where it goes by pairs
  // of terms, by powers, which are normalised to weights afterwards.
  kMaterialised,
  kLanes,   // few queries, or few keys: queries are the lanes, keys and values are read where they lie
  kDecode,  // a handful of queries: keys and values are read once, in the order of memory
};

// The tile product sums blocks of 128 keys, and adds blocks to a row's accumulators one after another. Up to 64
// additions their rounding is below that of the blocks; from there on a second accumulator takes over, so that the
// contract's bound holds for 65536 keys of equal weight too (9e-7 of the result without it, 2.3e-7 with it:
// tests/layers/long_keys_test.cc).
//
// By parts there are no blocks: six products of 32 keys are added one after another. With 8192 keys to a level, 0.05
// times normal queries and keys of size 64 and values from 0 to 1 came out wrong by 1.6e-6, with 2048 by 4e-7
// (tests/layers/long_keys_test.cc has such a case).
inline constexpr std::size_t kKeysPerLevel = 64 * kernels::kInnerBlock, kKeysPerPartsLevel = 2048;

// Byte offsets into the workspace, planned for the largest shape.
struct WorkspaceLayout {
  // Shared by all workers.
  std::size_t key_limits = 0;                 // int32 (B): keys that some query of the entry sees
  std::size_t row_starts = 0;                 // int64 (B + 1): sums of key_limits, to number the visible key rows
  std::size_t query_starts = 0;               // int64 (B + 1): the same for queries, where padded ones are skipped
  std::size_t query_order = 0;                // int32 (B, M): where may_order_queries()
  std::size_t tier_counts = 0;                // uint64 (threads, kNumScoreTiers), where tiers are counted
  std::size_t query = 0, key = 0, value = 0;  // projected rows, (B, M or N, size of the map)
  std::size_t key_exps = 0, key_max = 0;      // factored additive score: (B, H, vectors of keys), (B, H, key_capacity)
  std::size_t pooled = 0;                     // multi-head: (B, M, H * head_value_size), before the output map
  // Results of the chunks of keys: (B, H, chunks, M), rows of values padded to panels.
  std::size_t chunk_accumulators = 0, chunk_max = 0, chunk_sum = 0;
  std::size_t workers = 0, worker_bytes = 0, worker_stride = 0;  // the first one's part; of each; from one to the next
  // Within a worker, while pooling.
  std::size_t packed_keys = 0, packed_values = 0;                 // a span
  std::size_t window_exps = 0, window_max = 0;                    // keys that the worker projects itself
  std::size_t packed_queries = 0, query_exps = 0, query_max = 0;  // a group of queries
  std::size_t pair_sums = 0, fit_keys = 0;                        // of a span, for scores by pairs of terms
  std::size_t paired_queries = 0, paired_rows = 0;                // a group of queries, for these
  std::size_t value_pair_sums = 0, fit_values = 0;                // of a span, for pooling by pairs of terms
  std::size_t power_exponents = 0, paired_powers = 0;             // a group and a tile of queries, for that
  // For products by bfloat16 parts: of a group of queries, of a span, of a tile of powers.
  std::size_t query_parts = 0, queries_with_parts = 0;
  std::size_t key_parts = 0, keys_with_parts = 0, value_parts = 0, values_with_parts = 0;
  std::size_t power_parts = 0, lens_of_pass = 0;
  std::size_t accumulators = 0, row_max = 0, row_sums = 0, row_totals = 0, row_lens = 0;
  std::size_t scores = 0, max_lanes = 0, tile_lens = 0;  // a tile
  std::size_t lane_factors = 0;                          // lanes: of their results
  std::size_t step_max = 0;                              // lanes that leave attention weights: (steps, lanes)
  // Within a worker, while projecting: results that only a sink wants, the map's scratch.
  std::size_t rows_out = 0, map_scratch = 0;
  std::size_t total = 0;

  std::size_t worker(std::size_t index) const { return workers + index * worker_stride; }
};

// Byte offsets into prepared keys, and what is there (run/key_side.h).
struct PreparedLayout {
  std::size_t lens = 0;           // int32 (B)
  std::size_t values_finite = 0;  // int32 (B, Hkv): 1, or 0 if some value is infinite or NaN
  // additive: projected keys, (B, key_capacity, H * U). gaussian: (B, Hkv, key_capacity, D). Dot, where queries are
  // few: (B, key_capacity, Hkv * D), and values likewise.
  std::size_t rows = 0, value_rows = 0;
  std::size_t key_panels = 0;             // dot, gaussian: (B, Hkv, panels)
  std::size_t key_exps = 0, key_max = 0;  // factored additive score, as in the workspace
  std::size_t value_panels = 0;           // (B, Hkv, panels of key_capacity rows)
  std::size_t total = 0;
};

struct PlanImpl {
  std::shared_ptr<const LayerImpl> layer;
  const kernels::KernelSet* kernels = nullptr;
  Shape shape;  // every size filled in
  PlanOptions options;

  // Facts derived from layer and shape.
  std::int64_t num_heads = 1;        // of queries, pooled side by side
  std::int64_t num_kv_heads = 1;     // of keys and values
  std::int64_t score_size = 0;       // per head
  std::size_t inner_size = 0;        // of packed keys: score_size, + 1 for the gaussian's half norm
  std::size_t key_capacity = 0;      // keys of an entry, in whole panels
  std::size_t padded_values = 0;     // head_value_size in whole panels
  std::int64_t head_value_size = 0;  // per head
  std::int64_t context_size = 0;     // columns of an output row without the concatenated query
  std::int64_t output_size = 0;      // with it
  float scale = 1.0f;                // of q . k: the layer's scale, a gaussian's 1 / sigma^2
  // What packed queries hold it times: log2(e) where scores are to be exponents of two; else 1, and the softmax applies
  // score_scale.
  float query_scale = 1.0f, score_scale = 1.0f;
  const matmul::Linear* query_map = nullptr;
  const matmul::Linear* key_map = nullptr;
  const matmul::Linear* value_map = nullptr;
  const matmul::Linear* output_map = nullptr;

  // Choices.
  std::vector<std::string> candidates;  // paths that fit, the one that the rules prefer first
  std::string path;
  // Tiles that the caller or a profile asks for; 0: by the rules.
  std::size_t wanted_tile_queries = 0, wanted_tile_keys = 0;
  Pooling pooling = Pooling::kFused;
  bool factored = false;  // additive: the factored score, else the rational tanh of every sum
  kernels::ScoreTier first_tier = kernels::ScoreTier::kEight;  // additive, factored: the first that ranges may choose
  bool pairs_scores = false;  // dot product: by pairs of terms, where queries and keys are fit for it
  bool pairs_values = false;  // pooling: likewise, where powers and values are
  bool parts = false;         // dot product: scores and pooling by bfloat16 parts, where numbers have them
  // A tile of scores. A worker packs a span of keys at a time (a whole number of tiles) and takes it past a group of
  // queries (again of tiles) whose sums it keeps meanwhile.
  std::size_t tile_queries = 0, tile_keys = 0;
  std::size_t group_queries = 0, span_keys = 0;
  std::size_t pass_keys = 0;      // keys that a group meets before the next group does: a span or a part of it
  std::size_t scores_stride = 0;  // floats of a row of scores: tile_keys, or all keys where whole rows are kept
  // 1, or 2 when there are more keys than keys_per_level(): pooled sums are then kept for so many keys and in total.
  std::size_t accumulator_levels = 1;
  std::size_t query_ranges = 1;  // work items per head; does not touch results
  // Likewise. dot/lanes, dot/decode: of the key-value heads; work items per entry and chunk. Tiles: of the query heads
  // that share one.
  std::size_t head_ranges = 1;
  // dot/lanes: query heads of a key-value head, and queries of each, that are lanes at a time: a group.
  std::size_t lane_heads = 1, lane_queries = 1;
  LanesPrefetch lanes_prefetch;    // dot/lanes
  DecodePrefetch decode_prefetch;  // dot/decode
  bool next_rows_into_l1 = false;  // tiles by pairs: run/next_rows.h
  std::size_t chunk_keys = 0;  // few queries: keys of a work item, whose results are merged in order; 0: all of them
  // Additive: whoever pools keys projects them too, a window of them at a time, at best several whole entries, so that
  // projected keys stay in its cache. 0: keys are projected beforehand, for all who pool them.
  std::size_t window_keys = 0;
  bool values_with_window = false;  // whether the values of a window come into L2 while its keys are projected
  std::size_t entries_per_item = 1;
  WorkspaceLayout layout;
  PreparedLayout prepared;
  std::vector<Reason> reasons;

  // How one of the maps multiplies (plan/part_rules.cc).
  kernels::LinearRowsKernels linear_rows(const matmul::Linear* map) const;
  // Whether the workspace holds the exponentials of all keys.
  bool keeps_key_exps() const { return factored && window_keys == 0 && !options.prepared_keys; }
  // Whether kernels read keys and values where they lie, so that prepared ones are rows too.
  static bool reads_rows(Pooling way) { return way == Pooling::kLanes || way == Pooling::kDecode; }
  bool reads_rows() const { return reads_rows(pooling); }
  // Elements from a row of a packed panel of values to the next. Pairs take half a panel's columns at a time, which of
  // 128 rows of whole panels are all eight lines of half of L1's sets: a line more, and they are spread. EPYC (Zen 4),
  // AVX3, value_pairs/pv_m48_n128_d64 and _spread 157 and 163 GFLOPS. As many such lines as a worker's 1 MiB has room
  // for; prepared values have none.
  std::size_t packed_value_stride() const {
    constexpr std::size_t kLine = 64, kMostBytes = std::size_t{256} << 10;
    const std::size_t panel = kernels->pack.panel_width;
    const bool spreads = pairs_values && span_keys * (padded_values / panel) * kLine <= kMostBytes;
    return panel + (spreads ? kLine / sizeof(float) : 0);
  }
  std::size_t keys_per_level() const { return parts ? kKeysPerPartsLevel : kKeysPerLevel; }
  // Whether items are chunks of keys, whose results merge_chunks joins.
  bool has_chunks() const { return chunk_keys > 0; }
  // Whether tiles may take queries by their lengths instead of their places (run/query_order.h), where a run gives each
  // its own.
  bool may_order_queries() const {
    return !reads_rows() && !has_chunks() &&
           (options.valid_lens == ValidLens::kAny || options.valid_lens == ValidLens::kPerQuery);
  }
  // Of all keys that the plan is for.
  std::size_t num_chunks() const { return has_chunks() ? divide_up(key_capacity, chunk_keys) : 1; }
  // Steps of lanes over the keys of an item.
  std::size_t num_lane_steps() const { return divide_up(has_chunks() ? chunk_keys : key_capacity, tile_keys); }
  // Of a key-value head, of which so many queries are computed.
  std::size_t num_lane_groups(std::int64_t queries) const {
    return divide_up(to_size(heads_per_kv_head()), lane_heads) * divide_up(to_size(queries), lane_queries);
  }
  bool has_lane_groups() const { return pooling == Pooling::kLanes && num_lane_groups(shape.num_queries) > 1; }
  // What query_ranges of tiles begin with a multiple of: by parts whole steps, else less than a tile, so that they come
  // out even. EPYC (Zen 5), 2 threads, one head of 512 queries of 1024 keys of size 64, whole tiles and 16 queries: 373
  // and 341 us (attend plan --layer dot --shape 1,512,1024,64 --threads 2 --measure).
  std::size_t range_queries() const { return parts ? tile_queries : std::min<std::size_t>(tile_queries, 16); }
  // Query heads, and rows of queries, that share a key-value head: one row at least.
  std::int64_t heads_per_kv_head() const { return num_heads / num_kv_heads; }
  std::int64_t rows_per_kv_head() const { return std::max<std::int64_t>(shape.num_queries * heads_per_kv_head(), 1); }
  // Items of work when so many entries are pooled, their keys in so many chunks.
  std::size_t num_items(std::size_t batch, std::size_t chunks) const {
    const std::size_t heads = reads_rows() ? batch : batch * static_cast<std::size_t>(num_kv_heads);
    return divide_up(heads, entries_per_item) * query_ranges * head_ranges * chunks;
  }
  // Of the queries, keys, values and output that such a run pools, valid or not. By double: keys of the whole batch are
  // not checked for what fits in memory yet.
  std::size_t num_bytes(std::int64_t batch, std::int64_t num_queries, std::int64_t num_keys) const {
    const auto number = [](std::int64_t n) { return static_cast<double>(n); };
    const double rows = number(num_heads) * number(num_queries) + number(num_kv_heads) * number(num_keys);
    const double bytes = sizeof(float) * number(batch) * rows * number(score_size + head_value_size);
    constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max() / 2;
    return bytes < static_cast<double>(kMax) ? static_cast<std::size_t>(bytes) : kMax;
  }
  // Which tiles a path has, that others may be asked for: where queries are lanes or rows of one group, and where
  // whole rows of scores are kept, there are none.
  bool has_tile_queries(Pooling way) const { return !reads_rows(way); }
  bool has_tile_keys(Pooling way) const {
    return way == Pooling::kFused || way == Pooling::kLanes || layer->score == Score::kAdditive;
  }
  bool has_tile_queries() const { return has_tile_queries(pooling); }
  bool has_tile_keys() const { return has_tile_keys(pooling); }
};

}  // namespace attend::detail

#endif  // ATTEND_PLAN_PLAN_IMPL_H_
