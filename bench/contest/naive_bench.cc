// dot_naive/*: what a textbook writes. Three loops per product, a row of scores at a time, std::exp; whatever the
// compiler makes of it for the build's baseline instruction set.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench/benchmarks.h"
#include "bench/problem.h"
#include "bench/support.h"

namespace attend::bench {
namespace {

// One head: queries and output (M, D), keys and values (N, D), rows `stride` elements apart.
void naive_head(const float* queries, const float* keys, const float* values, float* output, std::int64_t num_queries,
                std::int64_t num_keys, std::int64_t size, std::int64_t stride) {
  std::vector<float> weights(static_cast<std::size_t>(num_keys));
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  for (std::int64_t m = 0; m < num_queries; ++m) {
    float max = -INFINITY, sum = 0;
    for (std::int64_t n = 0; n < num_keys; ++n) {
      float score = 0;
      for (std::int64_t k = 0; k < size; ++k) score += queries[m * stride + k] * keys[n * stride + k];
      weights[static_cast<std::size_t>(n)] = scale * score;
      max = std::max(max, scale * score);
    }
    for (float& weight : weights) {
      weight = std::exp(weight - max);
      sum += weight;
    }
    float* row = output + m * stride;
    std::fill_n(row, size, 0.0f);
    for (std::int64_t n = 0; n < num_keys; ++n) {
      const float weight = weights[static_cast<std::size_t>(n)] / sum;
      for (std::int64_t k = 0; k < size; ++k) row[k] += weight * values[n * stride + k];
    }
  }
}

void dot_naive(benchmark::State& state, const Problem& problem) {
  const Shape& shape = problem.shape;
  const std::int64_t stride = shape.num_heads * shape.query_size;
  AlignedTensor output{problem.queries.sizes, AlignedVector(problem.queries.data.size())};
  measure(state, [&] {
    for (std::int64_t h = 0; h < shape.num_heads; ++h) {
      const std::int64_t at = h * shape.query_size;
      naive_head(problem.queries.data.data() + at, problem.keys.data.data() + at, problem.values.data.data() + at,
                 output.data.data() + at, shape.num_queries, shape.num_keys, shape.query_size, stride);
    }
  });
  const double flops = 4.0 * static_cast<double>(stride * problem.pairs());
  count_flops(state, flops, Target::best());
  count_intensity(state, flops, problem.compulsory_bytes(false));
  state.counters["max_error"] = problem.max_error(split_heads(output.view(), problem.split));
}

}  // namespace

void register_naive_benchmarks() {
  const auto problem = std::make_shared<Lazy<Problem>>();
  register_case("dot_naive/b1_h12_m512_n512_d64", "compiler", [problem](benchmark::State& state) {
    dot_naive(state, problem->get([] { return dot_problem({1, 12, 12, 512, 512, 64}); }));
  })->Unit(benchmark::kMicrosecond);
}

}  // namespace attend::bench
