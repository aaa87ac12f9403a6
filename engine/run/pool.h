// Pools the values of heads by the softmax of their scores: the engine's centre, one file per way.
//     pool_tiles.cc   tiles of packed queries and keys, fused or materialised
//     pool_lanes.cc   few queries, or few keys: queries are the lanes
//     pool_decode.cc  a handful of queries, keys and values read once in the order of memory
#ifndef ATTEND_RUN_POOL_H_
#define ATTEND_RUN_POOL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/checked.h"
#include "engine/plan/plan_impl.h"
#include "engine/run/bind.h"
#include "engine/run/items.h"
#include "engine/run/key_side.h"
#include "engine/run/query_order.h"

namespace attend::detail {

// Queries, keys and values as the score sees them: the inputs themselves, or their projections, by head.
struct PoolJob {
  const PlanImpl* plan = nullptr;
  std::int64_t batch = 0, num_queries = 0, num_keys = 0;
  Rows<const float> queries, keys, values;
  KeySide packed;  // what of keys and values is packed already; keys and values are not read where it is
  MapJob key_job;  // where workers project keys themselves (PlanImpl::window_keys)
  VisibleKeys visible;
  QueryOrder order;                          // of tiles
  const std::int32_t* key_limits = nullptr;  // per batch entry: keys that some query sees; none beyond is read
  Rows<float> output;
  Rows<float> attention_weights;  // data is null when not asked for
  // Where keys are pooled in chunks: the results of chunk c of head (b, h) and query m at ((b H + h) C + c) M + m.
  float* chunk_accumulators = nullptr;
  float* chunk_max = nullptr;
  double* chunk_sum = nullptr;

  std::size_t num_chunks() const {
    return plan->has_chunks() ? divide_up(static_cast<std::size_t>(num_keys), plan->chunk_keys) : 1;
  }
  std::size_t chunk_row(std::int64_t b, std::int64_t h, std::size_t chunk, std::int64_t m) const {
    const auto head = static_cast<std::size_t>(b * plan->num_heads + h);
    return (head * num_chunks() + chunk) * static_cast<std::size_t>(num_queries) + static_cast<std::size_t>(m);
  }
  // Keys that the query at this place of entry b sees.
  std::int32_t num_keys_at(std::int64_t b, std::int64_t place) const { return visible.num_keys(b, order.at(b, place)); }
  std::size_t num_bytes() const { return plan->num_bytes(batch, num_queries, num_keys); }
  // Keys `begin` to limit - 1 of entry b: those of a chunk that some query sees. None: limit <= begin.
  struct KeyRange {
    std::size_t begin, limit;
  };
  KeyRange chunk_range(std::int64_t b, std::size_t chunk) const {
    const auto visible_keys = static_cast<std::size_t>(key_limits[b]);
    const std::size_t begin = chunk * plan->chunk_keys;
    return {begin, plan->has_chunks() ? std::min(visible_keys, begin + plan->chunk_keys) : visible_keys};
  }
};

// Units of parallel work. tiles: a range of the heads that share one key-value head and of their queries, over all its
// keys or one chunk of them; or several small entries. lanes, decode: a range of the key-value heads of an entry, or
// all of them, likewise; of a single head of lanes also a range of its queries.
std::size_t num_pool_items(const PoolJob& job);

// What an item of tiles is of: some key-value heads, counted over all entries; of those that share them a range, and of
// their queries.
struct TilesItem {
  std::int64_t first_head, last_head;  // behind the last item, first_head is beyond all heads
  std::size_t head_range, range, chunk;
};
TilesItem tiles_item(const PoolJob& job, std::size_t index);

// Key-value heads first to last - 1.
struct HeadRange {
  std::int64_t first, last;
  std::int64_t count() const { return last - first; }
};
// What an item of lanes or decoding is of.
struct HeadsItem {
  std::int64_t b;
  HeadRange heads;
  std::size_t range, chunk;  // range: of PlanImpl::query_ranges
};
HeadsItem heads_item(const PoolJob& job, std::size_t index);

// Computes one item. worker: this worker's part of the workspace. tier_counts: added to, or null. False if oneDNN
// failed.
[[nodiscard]] bool pool_item(const PoolJob& job, const Item& item, std::byte* worker, std::uint64_t* tier_counts);

// What pool_item calls, by the plan's Pooling.
[[nodiscard]] bool pool_tiles(const PoolJob& job, const Item& item, std::byte* worker, std::uint64_t* tier_counts);
void pool_lanes(const PoolJob& job, const Item& item, std::byte* worker);
void pool_decode(const PoolJob& job, std::size_t item, std::byte* worker);

// Contract 2: queries first to last - 1 of a head see no key or are skipped; their output and weights become 0.
void clear_rows(const PoolJob& job, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t last);

// Attention weights of paths that know sums last. Until then a key's place holds p = 2^(s - max), with the max of that
// time; here p becomes the weight 2^(s - last_max) / sum, 0 where the sum is 0 and NaN where it is NaN.
void finish_weights(float* weights, std::size_t count, float max, float last_max, double sum);

// Weights of keys `first` and on, which query m of a head does not see, become 0.
void clear_weights(const PoolJob& job, std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t first);

// Before the query heads of key-value heads first to last - 1 are pooled: their rows that see no key become 0, or are
// left to merge_chunks. False if none of them sees a key of this chunk.
bool begin_heads(const PoolJob& job, std::int64_t b, std::int64_t first, std::int64_t last, std::size_t chunk);

// Stores what softmax_tile.h calls o, m and l of a chunk and some queries of a head, from query m on, for merge_chunks.
// Rows of accumulators are padded_values apart.
void store_chunk(const PoolJob& job, std::int64_t b, std::int64_t h, std::size_t chunk, std::int64_t m,
                 std::size_t rows, const float* accumulators, const float* row_max, const double* row_sums);

// The output of one query head, 0 to batch * num_heads - 1, from the results of its chunks.
void merge_chunks(const PoolJob& job, std::size_t head);

}  // namespace attend::detail

#endif  // ATTEND_RUN_POOL_H_
