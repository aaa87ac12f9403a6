// Scores of given pre-activations, rows of queries and keys. per_element: time / (M * N * U), one tanh and one
// multiplication per element.
//
//     additive_score/m128_n512_u256      factored, exponentials of queries and keys, and their packing, included
//     additive_score/m1_n100_u256        one decoder step: the exponentials of the keys dominate
//     additive_score/m1_n100_u256_prepared  the same with the keys' exponentials at hand
//     additive_rational/m128_n512_u256   direct, keys packed beforehand
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

enum class Way { kRational, kFactored, kPrepared };

void additive_score(benchmark::State& state, std::int64_t target, Way way, std::size_t m, std::size_t n,
                    std::size_t u) {
  // In +-2, so that every sum is within the first tier.
  const auto sample = [](std::size_t i) { return static_cast<float>(i * 7919 % 2003) * 0.002f - 2.0f; };
  std::vector<float> queries(m * u), query_exps(m * u), query_max(m), keys(n * u), w_v(u),
      folded_w_v(kernels::folded_w_v_size(u));
  for (std::size_t i = 0; i < queries.size(); ++i) queries[i] = sample(i);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = sample(i + 1);
  for (std::size_t i = 0; i < u; ++i) w_v[i] = 0.1f * sample(i + 2);

  const kernels::PackKernels pack = kernels::pack_kernels(target);
  const std::size_t stride = (n + pack.panel_width - 1) / pack.panel_width * pack.panel_width;
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(u);
  const auto panels = hwy::AllocateAligned<float>(stride * u);
  const auto key_exps = hwy::AllocateAligned<float>(stride * u);
  const auto key_max = hwy::AllocateAligned<float>(stride);
  const auto scores = hwy::AllocateAligned<float>(stride * m);
  pack.keys({.keys = keys.data(),
             .keys_stride = row,
             .num_keys = n,
             .size = u,
             .center = nullptr,
             .half_norms = false,
             .panels = panels.get(),
             .panel_stride = u * pack.panel_width});
  const kernels::AdditiveScoreKernels kernels = kernels::additive_score_kernels(target);
  const float scale = kernels::fold_w_v(w_v.data(), u, folded_w_v.data());
  const kernels::ExpKeysArgs exp_keys{.rows = keys.data(),
                                      .stride = row,
                                      .num_keys = n,
                                      .num_hiddens = u,
                                      .panels = key_exps.get(),
                                      .panel_stride = u * pack.panel_width,
                                      .first = 0,
                                      .last = true,
                                      .key_max = key_max.get()};
  kernels.exp_keys(exp_keys);
  for (auto _ : state) {
    if (way == Way::kRational) {
      kernels.direct({.queries = queries.data(),
                      .queries_stride = row,
                      .keys = panels.get(),
                      .keys_panel_stride = u * pack.panel_width,
                      .w_v = w_v.data(),
                      .scores = scores.get(),
                      .scores_stride = static_cast<std::ptrdiff_t>(stride),
                      .num_queries = m,
                      .num_keys = n,
                      .num_hiddens = u});
    } else {
      if (way == Way::kFactored) kernels.exp_keys(exp_keys);
      kernels.exp_rows({.rows = queries.data(),
                        .stride = row,
                        .num_rows = m,
                        .num_hiddens = u,
                        .factors = folded_w_v.data(),
                        .exps = query_exps.data(),
                        .exps_stride = row,
                        .row_max = query_max.data()});
      kernels.factored({.queries = queries.data(),
                        .queries_stride = row,
                        .query_exps = query_exps.data(),
                        .query_exps_stride = row,
                        .query_max = query_max.data(),
                        .keys = panels.get(),
                        .key_exps = key_exps.get(),
                        .keys_panel_stride = u * pack.panel_width,
                        .key_max = key_max.get(),
                        .w_v = w_v.data(),
                        .folded_w_v = folded_w_v.data(),
                        .w_v_scale = scale,
                        .scores = scores.get(),
                        .scores_stride = static_cast<std::ptrdiff_t>(stride),
                        .num_queries = m,
                        .num_keys = n,
                        .num_hiddens = u,
                        .lens = nullptr,
                        .forced_tier = -1,
                        .tier_counts = nullptr});
    }
    benchmark::ClobberMemory();
  }
  // Elements per second, inverted; the console shows it as "285.1ps", JSON in seconds.
  state.counters["per_element"] = benchmark::Counter(
      static_cast<double>(m * n * u), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void register_case(const std::string& name, Way way, std::size_t m, std::size_t n) {
  for (const Target& target : Target::available()) {
    const std::string full_name = name + "/" + target.name();
    benchmark::RegisterBenchmark(full_name.c_str(), [id = target.id(), way, m, n](benchmark::State& state) {
      additive_score(state, id, way, m, n, 256);
    });
  }
}

}  // namespace

void register_additive_score_benchmarks() {
  register_case("additive_score/m128_n512_u256", Way::kFactored, 128, 512);
  register_case("additive_score/m1_n100_u256", Way::kFactored, 1, 100);
  register_case("additive_score/m1_n100_u256_prepared", Way::kPrepared, 1, 100);
  register_case("additive_rational/m128_n512_u256", Way::kRational, 128, 512);
}

}  // namespace attend::bench
