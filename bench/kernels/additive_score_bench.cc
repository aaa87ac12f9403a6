// additive_score/m128_n512_u256: the direct score of 128 queries and 512 keys with 256 hidden units, keys packed
// beforehand. per_element: time / (M * N * U), one tanh and one multiplication per element.
#include "engine/kernels/additive_score.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <hwy/aligned_allocator.h>

#include "attend/target.h"
#include "bench/benchmarks.h"
#include "engine/kernels/pack.h"

namespace attend::bench {
namespace {

void additive_score(benchmark::State& state, std::int64_t target, std::size_t m, std::size_t n, std::size_t u) {
  const auto sample = [](std::size_t i) { return static_cast<float>(i * 7919 % 2003) * 0.002f - 2.0f; };
  std::vector<float> queries(m * u), keys(n * u), w_v(u);
  for (std::size_t i = 0; i < queries.size(); ++i) queries[i] = sample(i);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = sample(i + 1);
  for (std::size_t i = 0; i < u; ++i) w_v[i] = 0.1f * sample(i + 2);

  const kernels::PackKernels pack = kernels::pack_kernels(target);
  const std::size_t stride = (n + pack.panel_width - 1) / pack.panel_width * pack.panel_width;
  const auto panels = hwy::AllocateAligned<float>(stride * u);
  const auto scores = hwy::AllocateAligned<float>(stride * m);
  pack.keys({.keys = keys.data(),
             .keys_stride = static_cast<std::ptrdiff_t>(u),
             .num_keys = n,
             .size = u,
             .center = nullptr,
             .half_norms = false,
             .panels = panels.get(),
             .panel_stride = u * pack.panel_width});
  const kernels::AdditiveScoreKernels kernels = kernels::additive_score_kernels(target);
  for (auto _ : state) {
    kernels.direct({.queries = queries.data(),
                    .queries_stride = static_cast<std::ptrdiff_t>(u),
                    .keys = panels.get(),
                    .keys_panel_stride = u * pack.panel_width,
                    .w_v = w_v.data(),
                    .scores = scores.get(),
                    .scores_stride = static_cast<std::ptrdiff_t>(stride),
                    .num_queries = m,
                    .num_keys = n,
                    .num_hiddens = u});
    benchmark::ClobberMemory();
  }
  // Elements per second, inverted; the console shows it as "285.1ps", JSON in seconds.
  state.counters["per_element"] = benchmark::Counter(
      static_cast<double>(m * n * u), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace

void register_additive_score_benchmarks() {
  for (const Target& target : Target::available()) {
    const std::string name = "additive_score/m128_n512_u256/" + target.name();
    benchmark::RegisterBenchmark(
        name.c_str(), [id = target.id()](benchmark::State& state) { additive_score(state, id, 128, 512, 256); });
  }
}

}  // namespace attend::bench
