// Results of chunks of keys become one: with m = max_c m_c, output = sum_c 2^(m_c - m) o_c / sum_c 2^(m_c - m) l_c,
// where m_c, l_c and o_c are what softmax_tile.h calls m, l and o. In the order of the keys, and in double, so that
// thousands of chunks add up as well as one.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/run/pool.h"

namespace attend::detail {
namespace {

// One row. first: its index in chunk 0; chunks lie num_queries rows apart.
void merge_row(const PoolJob& job, std::size_t first, std::size_t num_chunks, float* output) {
  const auto size = static_cast<std::size_t>(job.plan->head_value_size);
  const auto row_of = [&](std::size_t chunk) { return first + chunk * static_cast<std::size_t>(job.num_queries); };
  float max = -std::numeric_limits<float>::infinity();
  for (std::size_t c = 0; c < num_chunks; ++c) max = std::max(max, job.chunk_max[row_of(c)]);

  // Columns in pieces that stay in registers or L1.
  constexpr std::size_t kColumns = 64;
  double l = 0;
  for (std::size_t begin = 0; begin < size; begin += kColumns) {
    const std::size_t columns = std::min(kColumns, size - begin);
    double o[kColumns] = {};
    l = 0;
    for (std::size_t c = 0; c < num_chunks; ++c) {
      const std::size_t row = row_of(c);
      if (job.chunk_sum[row] == 0.0) continue;  // no key, or none above -inf
      const double scale = std::exp2(static_cast<double>(job.chunk_max[row]) - static_cast<double>(max));
      const float* accumulators = job.chunk_accumulators + row * job.plan->padded_values + begin;
      l += scale * job.chunk_sum[row];
      for (std::size_t n = 0; n < columns; ++n) o[n] += scale * static_cast<double>(accumulators[n]);
    }
    for (std::size_t n = 0; n < columns; ++n) output[begin + n] = l == 0.0 ? 0.0f : static_cast<float>(o[n] / l);
  }
}

}  // namespace

void merge_chunks(const PoolJob& job, std::size_t head) {
  const std::int64_t b = static_cast<std::int64_t>(head) / job.plan->num_heads;
  const std::int64_t h = static_cast<std::int64_t>(head) % job.plan->num_heads;
  // Chunks beyond the keys that some query sees were not pooled.
  const std::size_t chunks = divide_up(static_cast<std::size_t>(job.key_limits[b]), job.plan->chunk_keys);
  const std::int64_t computed = job.visible.num_queries(b);
  clear_rows(job, b, h, computed, job.num_queries);
  for (std::int64_t m = 0; m < computed; ++m) {
    merge_row(job, job.chunk_row(b, h, 0, m), chunks, job.output.at(b, h, m));
  }
}

}  // namespace attend::detail
