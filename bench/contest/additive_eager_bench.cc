// additive_eager/*: additive attention as the textbooks and eager frameworks run it: features (M, N, U) = queries +
// keys are written to memory, tanh goes over all of them, then they are summed with w_v. Projections by the same oneDNN
// maps as ours.
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
#include "engine/matmul/linear.h"

namespace attend::bench {
namespace {

constexpr std::size_t kQueries = 128, kKeys = 512, kHiddens = 256, kValueSize = 256;

// queries[m] + keys[n], then tanh: two passes over M * N * U elements (64 MiB), as separate operators make them.
void make_features(const float* queries, const float* keys, float* features) {
  for (std::size_t m = 0; m < kQueries; ++m) {
    for (std::size_t n = 0; n < kKeys; ++n) {
      float* row = features + (m * kKeys + n) * kHiddens;
      for (std::size_t u = 0; u < kHiddens; ++u) row[u] = queries[m * kHiddens + u] + keys[n * kHiddens + u];
    }
  }
  for (std::size_t i = 0; i < kQueries * kKeys * kHiddens; ++i) features[i] = std::tanh(features[i]);
}

void project(const matmul::Linear& map, const Tensor& rows, float* projected, std::byte* scratch) {
  const auto total = static_cast<std::size_t>(rows.sizes[1]);  // a multiple of a block
  for (std::size_t row = 0; row < total; row += matmul::Linear::kRowBlock) {
    if (!map.multiply(rows.data.data() + row * map.in_size(), projected + row * kHiddens, matmul::Linear::kRowBlock,
                      scratch)) {
      std::fill_n(projected, total * kHiddens, NAN);  // shows as an infinite max_error
    }
  }
}

// softmax(features . w_v), then the values.
void pool(const float* features, const float* w_v, const float* values, float* output) {
  std::vector<float> weights(kKeys);
  for (std::size_t m = 0; m < kQueries; ++m) {
    float max = -INFINITY, sum = 0;
    for (std::size_t n = 0; n < kKeys; ++n) {
      const float* row = features + (m * kKeys + n) * kHiddens;
      float score = 0;
      for (std::size_t u = 0; u < kHiddens; ++u) score += w_v[u] * row[u];
      weights[n] = score;
      max = std::max(max, score);
    }
    for (float& weight : weights) sum += weight = std::exp(weight - max);
    float* row = output + m * kValueSize;
    std::fill_n(row, kValueSize, 0.0f);
    for (std::size_t n = 0; n < kKeys; ++n) {
      const float weight = weights[n] / sum;
      for (std::size_t i = 0; i < kValueSize; ++i) row[i] += weight * values[n * kValueSize + i];
    }
  }
}

void additive_eager(benchmark::State& state, const Problem& problem) {
  const AdditiveWeights weights(kHiddens);
  const matmul::Linear query_map(weights.W_q.view(), {}, "W_q"), key_map(weights.W_k.view(), {}, "W_k");
  const AlignedFloats scratch(std::max(query_map.scratch_bytes(), key_map.scratch_bytes()) / sizeof(float) + 16);
  std::vector<float> queries(kQueries * kHiddens), keys(kKeys * kHiddens), output(kQueries * kValueSize);
  std::vector<float> features(kQueries * kKeys * kHiddens);
  auto* scratch_bytes = reinterpret_cast<std::byte*>(scratch.data());
  for (auto _ : state) {
    project(query_map, problem.queries, queries.data(), scratch_bytes);
    project(key_map, problem.keys, keys.data(), scratch_bytes);
    make_features(queries.data(), keys.data(), features.data());
    pool(features.data(), weights.w_v.data.data(), problem.values.data.data(), output.data());
    benchmark::ClobberMemory();
  }
  state.counters["per_element"] = seconds_each(static_cast<double>(kQueries * kKeys * kHiddens));
  state.counters["max_error"] = problem.max_error(TensorView<const float>(output.data(), {1, kQueries, kValueSize}));
}

}  // namespace

void register_additive_eager_benchmarks() {
  const auto problem = std::make_shared<Lazy<Problem>>();
  register_case("additive_eager/b1_m128_n512_u256", "compiler", [problem](benchmark::State& state) {
    additive_eager(state, problem->get([] { return additive_problem(1, kQueries, kKeys, kHiddens); }));
  })->Unit(benchmark::kMicrosecond);
}

}  // namespace attend::bench
