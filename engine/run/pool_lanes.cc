// Few queries: the queries of all heads that share keys and values are the lanes of vectors (kernels/query_lanes.h).
#include <algorithm>

#include "engine/base/carver.h"
#include "engine/run/pool.h"

namespace attend::detail {
namespace {

// The queries of one entry that share a key-value head.
struct Lanes {
  std::int64_t b, first_head;
  std::size_t num_heads, num_queries, num_lanes;
  std::size_t begin, limit;  // keys
  std::size_t used() const { return num_heads * num_queries; }
};

// How many of keys first to first + count - 1 each lane sees; padding lanes: none. Returns the fewest.
std::size_t lens_within(const Lanes& lanes, const std::int32_t* lens, std::size_t first, std::size_t count,
                        std::int32_t* within) {
  std::int32_t fewest = static_cast<std::int32_t>(count);
  for (std::size_t lane = 0; lane < lanes.used(); ++lane) {
    within[lane] = std::clamp(lens[lane] - static_cast<std::int32_t>(first), 0, static_cast<std::int32_t>(count));
    fewest = std::min(fewest, within[lane]);
  }
  return static_cast<std::size_t>(fewest);
}

void pool(const PoolJob& job, const Lanes& lanes, std::size_t chunk, std::byte* worker) {
  const PlanImpl& plan = *job.plan;
  const kernels::QueryLanesKernels& kernels = plan.kernels->query_lanes;
  const std::int64_t kv_head = lanes.first_head / plan.group_heads();
  const auto value_size = static_cast<std::size_t>(plan.head_value_size);
  auto* queries = part<float>(worker, plan.layout.packed_queries);
  auto* accumulators = part<float>(worker, plan.layout.accumulators);
  auto* max = part<float>(worker, plan.layout.row_max);
  auto* sum = part<float>(worker, plan.layout.row_sums);
  float* lost = sum + lanes.num_lanes;
  auto* lens = part<std::int32_t>(worker, plan.layout.row_lens);
  auto* tile_lens = part<std::int32_t>(worker, plan.layout.tile_lens);

  std::size_t longest = 0;
  for (std::size_t m = 0; m < lanes.num_queries; ++m) {
    const auto len = static_cast<std::size_t>(job.visible.of(lanes.b, static_cast<std::int64_t>(m)));
    longest = std::max(longest, std::min(len, lanes.limit));
    for (std::size_t g = 0; g < lanes.num_heads; ++g) {
      lens[g * lanes.num_queries + m] = static_cast<std::int32_t>(std::min(len, lanes.limit));
    }
  }
  kernels.pack({.queries = job.queries.at(lanes.b, lanes.first_head, 0),
                .head_stride = job.queries.head_stride,
                .row_stride = job.queries.row_stride,
                .num_heads = lanes.num_heads,
                .num_queries = lanes.num_queries,
                .size = static_cast<std::size_t>(plan.score_size),
                .scale = plan.query_scale,
                .packed = queries});
  std::fill_n(tile_lens, lanes.num_lanes, 0);
  for (std::size_t first = lanes.begin; first < longest; first += plan.tile_keys) {
    const std::size_t count = std::min(plan.tile_keys, longest - first);
    const std::size_t shortest = lens_within(lanes, lens, first, count, tile_lens);
    kernels.step({.queries = queries,
                  .num_lanes = lanes.num_lanes,
                  .size = static_cast<std::size_t>(plan.score_size),
                  .value_size = value_size,
                  .keys = job.keys.at(lanes.b, kv_head, static_cast<std::int64_t>(first)),
                  .keys_stride = job.keys.row_stride,
                  .values = job.values.at(lanes.b, kv_head, static_cast<std::int64_t>(first)),
                  .values_stride = job.values.row_stride,
                  .num_keys = count,
                  .shortest = shortest,
                  .lens = tile_lens,
                  .scores = part<float>(worker, plan.layout.scores),
                  .first = first == lanes.begin,
                  .lane_max = max,
                  .lane_sum = sum,
                  .lane_lost = lost,
                  .accumulators = accumulators});
  }

  kernels::LeaveLanesArgs leave{.accumulators = accumulators,
                                .lane_sum = sum,
                                .lane_lost = lost,
                                .num_heads = lanes.num_heads,
                                .num_queries = lanes.num_queries,
                                .value_size = value_size,
                                .num_lanes = lanes.num_lanes,
                                .output = job.output.at(lanes.b, lanes.first_head, 0),
                                .head_stride = job.output.head_stride,
                                .row_stride = job.output.row_stride,
                                .divide = true};
  if (plan.chunk_keys > 0) {
    const auto padded = static_cast<std::ptrdiff_t>(plan.padded_values);
    leave.output = job.chunk_accumulators + job.chunk_row(lanes.b, lanes.first_head, chunk, 0) * plan.padded_values;
    leave.head_stride = static_cast<std::ptrdiff_t>(job.num_chunks()) * job.num_queries * padded;
    leave.row_stride = padded;
    leave.divide = false;
    for (std::size_t lane = 0; lane < lanes.used(); ++lane) {
      const std::int64_t head = lanes.first_head + static_cast<std::int64_t>(lane / lanes.num_queries);
      const std::size_t row = job.chunk_row(lanes.b, head, chunk, static_cast<std::int64_t>(lane % lanes.num_queries));
      job.chunk_max[row] = max[lane];
      job.chunk_sum[row] = static_cast<double>(sum[lane]) - static_cast<double>(lost[lane]);
    }
  }
  kernels.leave(leave);
}

}  // namespace

void pool_lanes(const PoolJob& job, std::size_t item, std::byte* worker) {
  const PlanImpl& plan = *job.plan;
  const std::size_t chunks = job.num_chunks(), chunk = item % chunks;
  const auto head = static_cast<std::int64_t>(item / chunks);
  const std::int64_t b = head / plan.num_kv_heads, first_head = head % plan.num_kv_heads * plan.group_heads();
  const auto [begin, limit] = job.chunk_range(b, chunk);
  const std::int64_t computed = job.visible.num_queries(b);
  if (plan.chunk_keys == 0) {
    const std::int64_t cleared = limit == 0 ? 0 : computed;
    for (std::int64_t h = first_head; h < first_head + plan.group_heads(); ++h) {
      clear_rows(job, b, h, cleared, job.num_queries);
    }
  }
  if (begin >= limit || computed == 0) return;
  Lanes lanes{.b = b,
              .first_head = first_head,
              .num_heads = static_cast<std::size_t>(plan.group_heads()),
              .num_queries = static_cast<std::size_t>(computed),
              .num_lanes = 0,
              .begin = begin,
              .limit = limit};
  lanes.num_lanes = round_up(lanes.used(), plan.kernels->query_lanes.lanes);
  pool(job, lanes, chunk, worker);
}

}  // namespace attend::detail
