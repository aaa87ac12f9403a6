// Results of chunks of keys become one: with m = max_c m_c, output = sum_c 2^(m_c - m) o_c / sum_c 2^(m_c - m) l_c,
// where m_c, l_c and o_c are what softmax_tile.h calls m, l and o. In the order of the keys, and in double, so that
// thousands of chunks add up as well as one. Attention weights, where they are asked for, are 2^(m_c - m) p / l.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/run/pool.h"

namespace attend::detail {
namespace {

// One query of a head, and where its chunks are.
class Row {
 public:
  Row(const PoolJob& job, std::int64_t b, std::int64_t h, std::int64_t m, std::size_t num_chunks)
      : job_(job), b_(b), h_(h), m_(m), num_chunks_(num_chunks), first_(job.chunk_row(b, h, 0, m)) {
    for (std::size_t c = 0; c < num_chunks; ++c) max_ = std::max(max_, job.chunk_max[at(c)]);
    for (std::size_t c = 0; c < num_chunks; ++c) {
      if (counts(c)) sum_ += factor(c) * job.chunk_sum[at(c)];
    }
  }

  void merge_outputs() const {
    const auto size = static_cast<std::size_t>(job_.plan->head_value_size);
    float* output = job_.output.at(b_, h_, m_);
    // Columns in pieces that stay in registers or L1.
    constexpr std::size_t kColumns = 64;
    for (std::size_t begin = 0; begin < size; begin += kColumns) {
      const std::size_t columns = std::min(kColumns, size - begin);
      double o[kColumns] = {};
      for (std::size_t c = 0; c < num_chunks_; ++c) {
        if (!counts(c)) continue;
        const double scale = factor(c);
        const float* accumulators = job_.chunk_accumulators + at(c) * job_.plan->padded_values + begin;
        for (std::size_t n = 0; n < columns; ++n) o[n] += scale * static_cast<double>(accumulators[n]);
      }
      for (std::size_t n = 0; n < columns; ++n) {
        output[begin + n] = sum_ == 0.0 ? 0.0f : static_cast<float>(o[n] / sum_);
      }
    }
  }

  void merge_weights() const {
    const auto len = static_cast<std::size_t>(job_.visible.num_keys(b_, m_)), chunk = job_.plan->chunk_keys;
    float* weights = job_.attention_weights.at(b_, h_, m_);
    for (std::size_t c = 0; c * chunk < len; ++c) {
      finish_weights(weights + c * chunk, std::min(chunk, len - c * chunk), job_.chunk_max[at(c)], max_, sum_);
    }
    clear_weights(job_, b_, h_, m_, static_cast<std::int64_t>(len));
  }

 private:
  // Chunks lie num_queries rows apart.
  std::size_t at(std::size_t chunk) const { return first_ + chunk * static_cast<std::size_t>(job_.num_queries); }
  // No: no key, or none above -inf.
  bool counts(std::size_t chunk) const { return job_.chunk_sum[at(chunk)] != 0.0; }
  double factor(std::size_t chunk) const {
    return std::exp2(static_cast<double>(job_.chunk_max[at(chunk)]) - static_cast<double>(max_));
  }

  const PoolJob& job_;
  const std::int64_t b_, h_, m_;
  const std::size_t num_chunks_, first_;
  float max_ = -std::numeric_limits<float>::infinity();  // m
  double sum_ = 0;                                       // l
};

}  // namespace

void merge_chunks(const PoolJob& job, std::size_t head) {
  const std::int64_t b = static_cast<std::int64_t>(head) / job.plan->num_heads;
  const std::int64_t h = static_cast<std::int64_t>(head) % job.plan->num_heads;
  // Chunks beyond the keys that some query sees were not pooled.
  const std::size_t chunks = divide_up(static_cast<std::size_t>(job.key_limits[b]), job.plan->chunk_keys);
  const std::int64_t computed = job.visible.num_queries(b);
  clear_rows(job, b, h, computed, job.num_queries);
  for (std::int64_t m = 0; m < computed; ++m) {
    const Row row(job, b, h, m, chunks);
    row.merge_outputs();
    if (job.attention_weights.data != nullptr) row.merge_weights();
  }
}

}  // namespace attend::detail
