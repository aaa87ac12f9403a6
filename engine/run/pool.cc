#include "engine/run/pool.h"

#include <algorithm>
#include <cmath>

namespace attend::detail {

std::size_t num_pool_items(const PoolJob& job) {
  const PlanImpl& plan = *job.plan;
  if (job.num_queries == 0) return 0;
  return plan.num_items(static_cast<std::size_t>(job.batch), job.num_chunks());
}

TilesItem tiles_item(const PoolJob& job, std::size_t index) {
  const PlanImpl& plan = *job.plan;
  const std::size_t ranges = plan.query_ranges, chunks = job.num_chunks();
  // Lanes, one head an item, are counted alike (next_rows.h): their ranges of heads are key-value heads.
  const std::size_t head_ranges = plan.reads_rows() ? 1 : plan.head_ranges;
  const std::size_t pieces = head_ranges * ranges * chunks;
  const auto first = static_cast<std::int64_t>(index / pieces * plan.entries_per_item);
  return {
      .first_head = first,
      .last_head = std::min(job.batch * plan.num_kv_heads, first + static_cast<std::int64_t>(plan.entries_per_item)),
      .head_range = index / (ranges * chunks) % head_ranges,
      .range = index / chunks % ranges,
      .chunk = index % chunks};
}

HeadsItem heads_item(const PoolJob& job, std::size_t index) {
  const PlanImpl& plan = *job.plan;
  const std::size_t chunks = job.num_chunks();
  // Decoding reads all heads of some keys before the next keys, lanes all keys of some heads.
  const bool decode = plan.pooling == Pooling::kDecode;
  const std::size_t pieces = plan.query_ranges * chunks;  // of a range of heads
  const auto range = static_cast<std::int64_t>((decode ? index : index / pieces) % plan.head_ranges);
  const auto ranges = static_cast<std::int64_t>(plan.head_ranges);
  return {.b = static_cast<std::int64_t>(index / (plan.head_ranges * pieces)),
          .heads = {plan.num_kv_heads * range / ranges, plan.num_kv_heads * (range + 1) / ranges},
          .range = index / chunks % plan.query_ranges,
          .chunk = decode ? index / plan.head_ranges % chunks : index % chunks};
}

bool pool_item(const PoolJob& job, const Item& item, std::byte* worker, std::uint64_t* tier_counts) {
  switch (job.plan->pooling) {
    case Pooling::kLanes:
      pool_lanes(job, item, worker);
      return true;
    case Pooling::kDecode:
      pool_decode(job, item.index, worker);
      return true;
    case Pooling::kFused:
    case Pooling::kMaterialised:
      break;
  }
  return pool_tiles(job, item, worker, tier_counts);
}

void clear_rows(const PoolJob& job, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t last) {
  for (std::int64_t m = first; m < last; ++m) {
    std::fill_n(job.output.at(b, h, m), job.plan->head_value_size, 0.0f);
    if (job.attention_weights.data != nullptr) clear_weights(job, b, h, m, 0);
  }
}

bool begin_heads(const PoolJob& job, std::int64_t b, std::int64_t first, std::int64_t last, std::size_t chunk) {
  const PlanImpl& plan = *job.plan;
  const auto [begin, limit] = job.chunk_range(b, chunk);
  const std::int64_t computed = job.visible.num_queries(b);
  if (!plan.has_chunks()) {
    const std::int64_t cleared = limit == 0 ? 0 : computed;
    for (std::int64_t h = first * plan.heads_per_kv_head(); h < last * plan.heads_per_kv_head(); ++h) {
      clear_rows(job, b, h, cleared, job.num_queries);
    }
  }
  return begin < limit && computed > 0;
}

void store_chunk(const PoolJob& job, std::int64_t b, std::int64_t h, std::size_t chunk, std::int64_t m,
                 std::size_t rows, const float* accumulators, const float* row_max, const double* row_sums) {
  const std::size_t first = job.chunk_row(b, h, chunk, m), padded = job.plan->padded_values;
  std::copy_n(accumulators, rows * padded, job.chunk_accumulators + first * padded);
  std::copy_n(row_max, rows, job.chunk_max + first);
  std::copy_n(row_sums, rows, job.chunk_sum + first);
}

void finish_weights(float* weights, std::size_t count, float max, float last_max, double sum) {
  if (max == last_max && sum == 1.0) return;
  const double rise = static_cast<double>(last_max) - static_cast<double>(max);
  const float factor = sum == 0.0 ? 0.0f : static_cast<float>(std::exp2(-rise) / sum);
  // A plain loop: beside each weight stand a key's and a value's products. bench: dot/b1_h32_kv8_m1_n4096_d128_weights.
  for (std::size_t j = 0; j < count; ++j) weights[j] *= factor;
}

void clear_weights(const PoolJob& job, std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t first) {
  std::fill_n(job.attention_weights.at(b, h, m) + first, job.num_keys - first, 0.0f);
}

}  // namespace attend::detail
