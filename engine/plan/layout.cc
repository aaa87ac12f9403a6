// Where everything lies: the workspace of a run and the memory of prepared keys, both for the planned shape.
#include "engine/plan/layout.h"

#include <algorithm>

#include "engine/base/carver.h"
#include "engine/base/checked.h"
#include "engine/kernels/additive_score.h"
#include "engine/kernels/tile_pairs.h"

namespace attend::detail {
namespace {

constexpr const char* kWorkspace = "a workspace";
constexpr const char* kPrepared = "prepared keys";

// Bytes between workers' parts, which nobody touches. Where a worker passes over its scores, its core fetches what
// would follow them, and so takes lines from a core that is at work on them. EPYC (Zen 5), two threads on cores without
// a common L3, bytes between and us of dot/lanes, 8 heads of 8 x 128 queries of 1024 keys of size 16 and 12 heads of
// 32 x 64 of 64: 0 3200 and 710, 4096 3150 and 590, 16384 2920 and 520, 32768 2650 and 510, 65536 2360 and 520, 262144
// 2380 and 530 (attend plan --layer dot --num-heads 8 --shape 8,128,1024,16 --threads 2 --measure).
constexpr std::size_t kApart = 64 * 1024;

std::size_t map_out(const matmul::Linear* map) { return map == nullptr ? 0 : map->out_size(); }

// Keys of all heads of the batch.
std::size_t num_all_keys(const PlanImpl& plan, const char* what) {
  const std::size_t heads = checked_multiply(to_size(plan.shape.batch), to_size(plan.num_kv_heads), what);
  return checked_multiply(heads, plan.key_capacity, what);
}

void lay_out_shared(PlanImpl& plan, Carver& shared) {
  const std::size_t batch = to_size(plan.shape.batch), heads = to_size(plan.num_heads);
  const std::size_t query_rows = checked_multiply(batch, to_size(plan.shape.num_queries), kWorkspace);
  const std::size_t key_rows = plan.options.prepared_keys || plan.window_keys > 0
                                   ? 0
                                   : checked_multiply(batch, to_size(plan.shape.num_keys), kWorkspace);
  WorkspaceLayout& layout = plan.layout;
  layout.key_limits = shared.take(batch, sizeof(std::int32_t));
  layout.row_starts = shared.take(batch + 1, sizeof(std::int64_t));
  if (plan.options.padding == Padding::kSkipQueries) {
    layout.query_starts = shared.take(batch + 1, sizeof(std::int64_t));
  }
  if (plan.options.count_tiers) {
    const std::size_t counters = checked_multiply(to_size(plan.options.threads), kernels::kNumScoreTiers, kWorkspace);
    layout.tier_counts = shared.take(counters, sizeof(std::uint64_t));
  }
  if (plan.may_order_queries()) layout.query_order = shared.take(query_rows, sizeof(std::int32_t));
  layout.query = shared.take(checked_multiply(query_rows, map_out(plan.query_map), kWorkspace), sizeof(float));
  layout.key = shared.take(checked_multiply(key_rows, map_out(plan.key_map), kWorkspace), sizeof(float));
  layout.value = shared.take(checked_multiply(key_rows, map_out(plan.value_map), kWorkspace), sizeof(float));
  if (plan.keeps_key_exps()) {
    const std::size_t keys = num_all_keys(plan, kWorkspace);
    layout.key_exps = shared.take(checked_multiply(keys, plan.inner_size, kWorkspace), sizeof(float));
    layout.key_max = shared.take(keys, sizeof(float));
  }
  const std::size_t pooled_size = plan.output_map == nullptr ? 0 : heads * to_size(plan.head_value_size);
  layout.pooled = shared.take(checked_multiply(query_rows, pooled_size, kWorkspace), sizeof(float));
  if (plan.has_chunks()) {
    const std::size_t chunks = checked_multiply(heads, plan.num_chunks(), kWorkspace);
    const std::size_t rows = checked_multiply(query_rows, chunks, kWorkspace);
    layout.chunk_accumulators = shared.take(checked_multiply(rows, plan.padded_values, kWorkspace), sizeof(float));
    layout.chunk_max = shared.take(rows, sizeof(float));
    layout.chunk_sum = shared.take(rows, sizeof(double));
  }
}

// Rows of floats, in one worker's part.
std::size_t take_floats(Carver& worker, std::size_t rows, std::size_t columns) {
  return worker.take(checked_multiply(rows, columns, kWorkspace), sizeof(float));
}

// Queries of the heads that share a key-value head, as lanes: queries, scores and sums by lane. All but the scores and
// lengths of every key-value head of an item, one head after the other.
void lay_out_lanes(PlanImpl& plan, Carver& worker) {
  WorkspaceLayout& layout = plan.layout;
  const std::size_t lanes = plan.group_queries, heads = divide_up(to_size(plan.num_kv_heads), plan.head_ranges);
  const std::size_t all_lanes = checked_multiply(heads, lanes, kWorkspace);
  layout.packed_queries = take_floats(worker, to_size(plan.score_size), all_lanes);
  const std::size_t row_size = round_up(to_size(plan.head_value_size), plan.kernels->query_lanes.lanes);
  layout.accumulators = take_floats(worker, all_lanes, row_size);
  layout.row_max = take_floats(worker, 1, all_lanes);
  layout.row_sums = take_floats(worker, 2, all_lanes);
  layout.row_lens = worker.take(lanes, sizeof(std::int32_t));
  layout.tile_lens = worker.take(lanes, sizeof(std::int32_t));
  layout.scores = take_floats(worker, plan.tile_keys, lanes);
  layout.lane_factors = take_floats(worker, 1, lanes);
  if (!plan.options.attention_weights) return;
  layout.step_max = take_floats(worker, plan.num_lane_steps(), all_lanes);
}

// Queries of all heads of an item, as rows.
void lay_out_decoding(PlanImpl& plan, Carver& worker) {
  WorkspaceLayout& layout = plan.layout;
  const std::size_t rows = plan.group_queries * divide_up(to_size(plan.num_kv_heads), plan.head_ranges);
  layout.packed_queries = take_floats(worker, rows, to_size(plan.score_size));
  layout.accumulators = take_floats(worker, rows, plan.padded_values);
  layout.row_max = take_floats(worker, rows, 1);
  layout.row_sums = take_floats(worker, rows, plan.kernels->softmax_tile.sums_stride);
  layout.row_totals = worker.take(rows, sizeof(double));
  layout.row_lens = worker.take(rows, sizeof(std::int32_t));
  layout.tile_lens = worker.take(rows, sizeof(std::int32_t));
  layout.scores = take_floats(worker, rows, plan.scores_stride);
}

// Numbers of parts, of so many rows or columns and terms, in one worker's part.
std::size_t take_parts(Carver& worker, std::size_t count, std::size_t terms) {
  const std::size_t tiles =
      checked_multiply(divide_up(count, kernels::kPartsRows), divide_up(terms, kernels::kPartsTerms), kWorkspace);
  return worker.take(checked_multiply(tiles, kernels::kNumParts * kernels::kPartsTile, kWorkspace),
                     sizeof(std::uint16_t));
}

void lay_out_parts(PlanImpl& plan, Carver& worker) {
  WorkspaceLayout& layout = plan.layout;
  layout.query_parts = take_parts(worker, plan.group_queries, plan.inner_size);
  layout.queries_with_parts = worker.take(plan.group_queries, 1);
  layout.key_parts = take_parts(worker, plan.span_keys, plan.inner_size);
  layout.keys_with_parts = worker.take(plan.span_keys, 1);
  layout.value_parts = take_parts(worker, to_size(plan.head_value_size), plan.span_keys);
  layout.values_with_parts = worker.take(plan.span_keys, 1);
  layout.lens_of_pass = worker.take(plan.group_queries, sizeof(std::int32_t));
  layout.power_parts = worker.take(2 * kernels::pool_parts_scratch(), sizeof(std::uint16_t));
}

void lay_out_pooling(PlanImpl& plan, Carver& worker) {
  if (plan.pooling == Pooling::kLanes) return lay_out_lanes(plan, worker);
  if (plan.pooling == Pooling::kDecode) return lay_out_decoding(plan, worker);
  WorkspaceLayout& layout = plan.layout;
  const auto floats = [&](std::size_t rows, std::size_t columns) { return take_floats(worker, rows, columns); };
  // By parts, keys are packed on their way to these, and values not at all.
  layout.packed_keys = floats(plan.parts ? plan.tile_keys : plan.span_keys, plan.inner_size);
  const std::size_t value_panels = plan.padded_values / plan.kernels->pack.panel_width;
  layout.packed_values = floats(plan.parts ? 0 : plan.span_keys, value_panels * plan.packed_value_stride());
  layout.window_exps = floats(plan.window_keys, plan.inner_size);
  layout.window_max = floats(plan.window_keys, 1);
  if (plan.layer->score != Score::kAdditive) layout.packed_queries = floats(plan.group_queries, plan.inner_size);
  if (plan.pairs_scores) {
    layout.pair_sums = floats(plan.span_keys, 1);
    layout.fit_keys = worker.take(plan.span_keys / plan.kernels->pack.panel_width, sizeof(std::int32_t));
    layout.paired_queries = floats(kernels::copied_rows(plan.group_queries), plan.inner_size);
    layout.paired_rows = worker.take(plan.group_queries, sizeof(kernels::PairedRow));
  }
  if (plan.pairs_values) {
    const std::size_t blocks = divide_up(plan.span_keys, kernels::kInnerBlock);
    layout.value_pair_sums = floats(blocks, plan.padded_values);
    layout.fit_values = worker.take(blocks * value_panels, sizeof(std::int32_t));
    layout.power_exponents = floats(plan.group_queries, 1);
    layout.paired_powers = worker.take(plan.tile_queries, sizeof(kernels::PairedRow));
  }
  if (plan.parts) lay_out_parts(plan, worker);
  if (plan.factored) {
    layout.query_exps = floats(plan.group_queries, plan.inner_size);
    layout.query_max = floats(plan.group_queries, 1);
  }
  // Products by parts write whole steps of rows, and the scores of one tile while another's are at work.
  const std::size_t step = plan.parts ? kernels::kPartsRowsPerStep : 1, tiles_at_work = plan.parts ? 2 : 1;
  layout.accumulators = floats(round_up(plan.group_queries, step), plan.padded_values * plan.accumulator_levels);
  layout.row_max = floats(plan.group_queries, 1);
  layout.row_sums = floats(plan.group_queries, plan.kernels->softmax_tile.sums_stride);
  layout.row_totals = worker.take(plan.group_queries, sizeof(double));
  layout.row_lens = worker.take(plan.group_queries, sizeof(std::int32_t));
  const std::size_t score_rows = std::max(round_up(plan.tile_queries, step), tiles_at_work * step);
  layout.scores = floats(score_rows, plan.scores_stride);
  layout.max_lanes = floats(plan.tile_queries, plan.kernels->pack.panel_width);
  layout.tile_lens = worker.take(plan.tile_queries, sizeof(std::int32_t));
}

void lay_out_projecting(PlanImpl& plan, Carver& worker) {
  // Who pools what he has just projected keeps both, and so has copies of few rows at a time (run/map_rows.cc).
  std::size_t most_out = 0, most_scratch = 0, row_block = matmul::Linear::kRowBlock;
  for (const matmul::Linear* map : {plan.query_map, plan.key_map, plan.value_map, plan.output_map}) {
    if (map == nullptr) continue;
    most_out = std::max(most_out, map->out_size());
    const std::size_t few_rows = map->few_rows(plan.linear_rows(map));
    most_scratch =
        std::max(most_scratch, map->scratch_bytes(plan.window_keys > 0 ? few_rows : matmul::Linear::kMaxRows));
    if (plan.window_keys > 0) row_block = std::max(row_block, few_rows);
  }
  WorkspaceLayout& layout = plan.layout;
  layout.rows_out = take_floats(worker, row_block, most_out);
  layout.map_scratch = worker.take(most_scratch, 1);
}

}  // namespace

void lay_out_workspace(PlanImpl& plan) {
  WorkspaceLayout& layout = plan.layout;
  Carver shared(kWorkspace), pooling(kWorkspace), projecting(kWorkspace);
  lay_out_shared(plan, shared);
  layout.workers = shared.bytes();
  lay_out_pooling(plan, pooling);
  // Pooling and projecting take turns in a worker's part, unless workers pool what they have just projected.
  if (plan.window_keys > 0) projecting = pooling;
  lay_out_projecting(plan, projecting);
  layout.worker_bytes = std::max(pooling.bytes(), projecting.bytes());
  layout.worker_stride = checked_add(layout.worker_bytes, kApart, kWorkspace);
  const std::size_t before_last = checked_multiply(to_size(plan.options.threads) - 1, layout.worker_stride, kWorkspace);
  layout.total = checked_add(layout.workers, checked_add(before_last, layout.worker_bytes, kWorkspace), kWorkspace);
}

void lay_out_prepared(PlanImpl& plan) {
  const std::size_t heads = checked_multiply(to_size(plan.shape.batch), to_size(plan.num_kv_heads), kPrepared);
  const std::size_t keys = num_all_keys(plan, kPrepared);
  PreparedLayout& layout = plan.prepared;
  Carver memory(kPrepared);
  const auto per_key = [&](std::size_t columns) {
    return memory.take(checked_multiply(keys, columns, kPrepared), sizeof(float));
  };
  layout.lens = memory.take(to_size(plan.shape.batch), sizeof(std::int32_t));
  layout.values_finite = memory.take(heads, sizeof(std::int32_t));
  if (plan.reads_rows()) {
    layout.rows = per_key(to_size(plan.score_size));
    layout.value_rows = per_key(to_size(plan.head_value_size));
    layout.total = memory.bytes();
    return;
  }
  if (plan.layer->score != Score::kDot) layout.rows = per_key(to_size(plan.score_size));
  if (plan.layer->score != Score::kAdditive) layout.key_panels = per_key(plan.inner_size);
  if (plan.factored) {
    layout.key_exps = per_key(plan.inner_size);
    layout.key_max = per_key(1);
  }
  layout.value_panels = per_key(plan.padded_values);
  layout.total = memory.bytes();
}

}  // namespace attend::detail
