#include "engine/plan/cost.h"

#include <algorithm>
#include <utility>

#include "engine/base/checked.h"
#include "engine/base/cpus.h"

namespace attend {
namespace detail {
namespace {

// All arithmetic is counted in the FLOPs that a core's multiply-adds would have done meanwhile, so that one measured
// number, Machine::flops, serves all targets: a vector instruction takes the place of a multiply-add of its lanes,
// which is two FLOPs a lane, whatever the lanes are.
//
// A score of the online softmax takes 13 instructions a vector on AVX-512 (6.5 cycles of two ports for 16 scores):
// scaled difference, exponential, sum. bench: softmax_tile_step/*.
constexpr double kFlopsPerExp = 2 * 13;
// A term of the factored additive score takes 3.5 instructions, 4.3 with what surrounds them; a rational tanh 26.
// bench: additive_score/*, additive_hwy_tanh/*.
constexpr double kFlopsPerFactoredTanh = 2 * 4.3, kFlopsPerRationalTanh = 2 * 26;

// What share of the peak products reach, padding to whole vectors included, everything but softmax and packing. One
// vector of lanes has too few sums in flight; a row of dot/decode ends in a sum across lanes. Fitted to bench
// planner/*.
constexpr double kFusedShare = 0.93, kMaterialisedShare = 0.87, kLanesShare = 0.76, kOneVectorShare = 0.55;
// Of scores, pooling and projections by pairs of terms, of at most 1.5 times the peak, what looking at rows takes
// included, on Zen 4, on Zen 5 and on AVX2. bench: tile_pairs/*, value_pairs/*, linear/*/*_pairs.
struct PairsShares {
  double scores, pooling, projections;
};
constexpr PairsShares kPairsOnZen4{1.25, 1.2, 1.35}, kPairsOnZen5{1.1, 1.0, 1.2},
    kPairsWith16Registers{1.0, 0.93, 1.05};
const PairsShares& pairs_shares(const PlanImpl& plan) {
  if (!plan.kernels->few_rows.has_32_registers) return kPairsWith16Registers;
  return this_cpu().is_zen5() ? kPairsOnZen5 : kPairsOnZen4;
}
// By bfloat16 parts, of at most 16 / 6 times the peak: of scores and pooling, and of projections. bench:
// dot/b1_h32_kv8_m2048_n2048_d128, planner/*; linear/*/AVX3_parts.
constexpr double kPartsShare = 1.3, kPartsProjectionShare = 1.3;
constexpr double kDecodeSize = 130;  // of a row of keys that reaches half of the peak
// Of projections, by oneDNN or by our own kernel. bench: linear/*.
constexpr double kProjectionShare = 0.9;
// Packing reads and writes within L2, transposing keys. bench: pack_keys/*, pack_values/*, pack_queries/*.
constexpr double kPackingShare = 0.35;
// Of a run, and of a head of an entry or a chunk of its keys. bench: overhead/*.
constexpr double kRunSeconds = 0.5e-6, kHeadSeconds = 0.25e-6;

// (query, key) pairs of an entry that the mask leaves.
double visible_pairs(const PlanImpl& plan) {
  const std::int64_t m = plan.shape.num_queries, n = plan.shape.num_keys;
  if (plan.options.causal == Causal::kNone) return to_double(m) * to_double(n);
  // Query i sees first + i keys, of 0 to n: none of them, then a triangle, then all.
  const std::int64_t first = plan.options.causal == Causal::kBottomRight ? n - m + 1 : 1;
  const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, m),
                     end = std::clamp<std::int64_t>(n - first, begin, m);
  const double triangle = to_double(end - begin) * (to_double(2 * first + begin + end - 1) / 2);
  return triangle + to_double(m - end) * to_double(n);
}

// Calls visit(map, FLOPs) for each projection of a run.
template <class Visit>
void for_each_map(const PlanImpl& plan, const Visit& visit) {
  const auto map_rows = [&](const matmul::Linear* map, std::int64_t rows) {
    if (map == nullptr) return;
    const double batch_rows = to_double(plan.shape.batch) * to_double(rows);
    visit(*map, 2 * batch_rows * static_cast<double>(map->in_size()) * static_cast<double>(map->out_size()));
  };
  map_rows(plan.query_map, plan.shape.num_queries);
  map_rows(plan.output_map, plan.shape.num_queries);
  if (plan.options.prepared_keys) return;
  map_rows(plan.key_map, plan.shape.num_keys);
  map_rows(plan.value_map, plan.shape.num_keys);
}

double round_to(double n, std::size_t multiple) {
  return static_cast<double>(round_up(static_cast<std::size_t>(n), multiple));
}

// FLOPs that a core at its peak would have done in the time of the products.
double product_peak_flops(const PlanImpl& plan, double score_flops, double pool_flops) {
  const double d = to_double(plan.score_size), n = std::max(to_double(plan.shape.num_keys), 1.0);
  const double rows = to_double(plan.rows_per_kv_head());
  const double columns = std::max(to_double(plan.head_value_size), 1.0);
  const std::size_t lanes = plan.kernels->query_lanes.lanes;
  const auto in_whole_vectors = [lanes](double count) { return round_to(count, lanes) / count; };
  switch (plan.pooling) {
    case Pooling::kLanes: {
      const double score_share = rows <= static_cast<double>(lanes) ? kOneVectorShare : kLanesShare;
      return score_flops * in_whole_vectors(rows) / score_share + pool_flops * in_whole_vectors(columns) / kLanesShare;
    }
    case Pooling::kDecode:
      return (score_flops + pool_flops) * (1 + kDecodeSize / std::max(d, 1.0));
    case Pooling::kFused:
    case Pooling::kMaterialised:
      break;
  }
  const double share = plan.pooling == Pooling::kFused ? kFusedShare : kMaterialisedShare;
  // Without tiles, parts are for tests alone.
  if (plan.parts && plan.kernels->tile_parts.has_tiles) {
    return (score_flops * in_whole_vectors(n) + pool_flops * in_whole_vectors(columns)) / kPartsShare;
  }
  const bool scores_by_pairs = plan.pairs_scores && plan.kernels->tile_pairs.has_registers_for_pairs;
  const bool pools_by_pairs = plan.pairs_values && plan.kernels->value_pairs.has_registers_for_pairs;
  return score_flops * in_whole_vectors(n) / (scores_by_pairs ? pairs_shares(plan).scores : share) +
         pool_flops * in_whole_vectors(columns) / (pools_by_pairs ? pairs_shares(plan).pooling : share);
}

double num_items(const PlanImpl& plan) {
  return std::max(static_cast<double>(plan.num_items(to_size(plan.shape.batch), plan.num_chunks())), 1.0);
}

// Bytes/s of the smallest level that holds them all.
double bandwidth(const Machine& machine, double bytes) {
  if (bytes <= static_cast<double>(machine.l2_bytes)) return machine.l2_bandwidth;
  if (bytes <= static_cast<double>(machine.l3_bytes)) return machine.l3_bandwidth;
  return machine.memory_bandwidth;
}

double ratio(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

}  // namespace

Work count_work(const PlanImpl& plan) {
  const Shape& shape = plan.shape;
  const double batch = to_double(shape.batch), heads = to_double(plan.num_heads);
  const double m = to_double(shape.num_queries), n = to_double(shape.num_keys);
  const double d = to_double(plan.score_size), dv = to_double(plan.head_value_size);
  const double pairs = batch * heads * visible_pairs(plan);
  const bool additive = plan.layer->score == Score::kAdditive, prepared = plan.options.prepared_keys;
  // Of the online softmax, weights are scored a second time.
  const double passes = plan.options.attention_weights && plan.pooling == Pooling::kFused ? 2 : 1;
  Work work;
  work.score_flops = additive ? 0 : passes * 2 * pairs * d;
  work.pool_flops = 2 * pairs * dv;
  for_each_map(plan, [&](const matmul::Linear&, double flops) { work.projection_flops += flops; });
  work.exps = passes * pairs;
  if (additive) work.tanhs = passes * pairs * d;
  if (plan.factored) work.exps += batch * heads * d * (m + (prepared ? 0 : n));
  // Views of heads have sizes of a head each; a multi-head layer's rows hold them all.
  const double query_columns = to_double(shape.query_size * shape.num_heads);
  const double key_columns = prepared ? to_double(plan.num_kv_heads) * (d + dv)
                                      : to_double((shape.key_size + shape.value_size) * shape.num_kv_heads);
  const double weights = plan.options.attention_weights ? batch * heads * m * n : 0;
  work.bytes_read = 4 * batch * (m * query_columns + n * key_columns);
  work.bytes_written = 4 * (batch * m * to_double(plan.output_size * shape.num_heads) + weights);
  if (!prepared && !plan.reads_rows()) {
    const double columns =
        static_cast<double>(plan.padded_values) + (additive ? 0 : static_cast<double>(plan.inner_size));
    const auto times = static_cast<double>(plan.query_ranges * plan.head_ranges);
    work.bytes_packed = 4 * batch * to_double(plan.num_kv_heads) * n * columns * times;
  }
  work.items = num_items(plan);
  return work;
}

Cost estimate_cost(const PlanImpl& plan, const Machine& machine) {
  const Work work = count_work(plan);
  Cost cost;
  cost.flops = work.score_flops + work.pool_flops + work.projection_flops;
  cost.exps = work.exps;
  cost.tanhs = work.tanhs;
  cost.bytes_read = work.bytes_read;
  cost.bytes_written = work.bytes_written;
  cost.product_seconds = ratio(product_peak_flops(plan, work.score_flops, work.pool_flops), machine.flops);
  cost.exp_seconds = ratio(work.exps * kFlopsPerExp, machine.flops);
  cost.tanh_seconds =
      ratio(work.tanhs * (plan.factored ? kFlopsPerFactoredTanh : kFlopsPerRationalTanh), machine.flops);
  cost.packing_seconds = ratio(2 * work.bytes_packed, machine.l2_bandwidth * kPackingShare);
  for_each_map(plan, [&](const matmul::Linear& map, double flops) {
    const double peak = map.runs_on_plan_target() ? machine.flops : machine.projection_flops;
    const kernels::LinearRowsKernels kernels = plan.linear_rows(&map);
    const double share = map.goes_by_parts(kernels)   ? kPartsProjectionShare
                         : map.goes_by_pairs(kernels) ? pairs_shares(plan).projections
                                                      : kProjectionShare;
    cost.projection_seconds += ratio(flops, peak * share);
  });
  const double bytes = work.bytes_read + work.bytes_written;
  cost.memory_seconds = ratio(bytes, bandwidth(machine, bytes));
  cost.overhead_seconds = kRunSeconds + kHeadSeconds * to_double(plan.shape.batch * plan.num_kv_heads) *
                                            static_cast<double>(plan.num_chunks());
  cost.threads = static_cast<int>(std::min(static_cast<double>(plan.options.threads), work.items));
  const double arithmetic =
      cost.product_seconds + cost.exp_seconds + cost.tanh_seconds + cost.packing_seconds + cost.projection_seconds;
  // Packing waits for what it reads; elsewhere the next keys come in while these are worked on.
  const bool waits = work.bytes_packed > 0;
  const double one_core = waits ? arithmetic + cost.memory_seconds : std::max(arithmetic, cost.memory_seconds);
  cost.seconds = cost.overhead_seconds + one_core / cost.threads;
  const std::pair<double, std::string_view> terms[] = {
      {cost.product_seconds, "products"}, {cost.exp_seconds, "exponentials"},       {cost.tanh_seconds, "tanhs"},
      {cost.packing_seconds, "packing"},  {cost.projection_seconds, "projections"}, {cost.memory_seconds, "memory"},
      {cost.overhead_seconds, "overhead"}};
  cost.bound = std::max_element(std::begin(terms), std::end(terms), [](const auto& a, const auto& b) {
                 return a.first < b.first;
               })->second;
  return cost;
}

}  // namespace detail

Cost Plan::cost(const Machine& machine) const { return detail::estimate_cost(*impl_, machine); }

}  // namespace attend
