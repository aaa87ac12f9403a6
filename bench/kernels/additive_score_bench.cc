// Scores of given pre-activations, rows of queries and keys. per_element: time / (query, key that it sees, hidden
// unit), one tanh and one multiplication per element.
//
//     additive_score/m128_n512_u256  factored, from rows on: exponentials of queries and keys, and their packing,
//                                    included; only what the last tier would read is packed beforehand
//     additive_score/m1_n100_u256    one decoder step: the exponentials of the keys dominate
//     additive_score/CASE_prepared   the same with the keys' exponentials at hand; of three queries, too
//     additive_score/CASE_eight      ..., all by tier eight, whether this CPU begins with it or not; _three likewise
//     additive_score/CASE_lens       each query sees keys of its own number, random, uniform in 1..N
//     additive_rational/CASE         direct, keys packed beforehand
#include "engine/kernels/additive_score.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <hwy/aligned_allocator.h>

#include "attend/target.h"
#include "bench/additive.h"
#include "bench/benchmarks.h"
#include "bench/kernels/score_error.h"
#include "bench/support.h"
#include "engine/base/cpus.h"
#include "engine/kernels/pack.h"
#include "engine/plan/score_tier_rules.h"

namespace attend::bench {
namespace {

enum class Way { kRational, kFactored, kPrepared };

struct Case {
  const char* name;
  Way way;
  std::size_t num_queries, num_keys;
  bool with_lens = false;
  int forced_tier = -1;
};

constexpr std::size_t kHiddens = 256;

void additive_score(benchmark::State& state, const Target& target, const Case& c) {
  constexpr std::size_t u = kHiddens;
  const std::size_t m = c.num_queries;
  std::vector<std::int32_t> lens;
  if (c.with_lens) {
    lens = random_lens(static_cast<std::int64_t>(m), static_cast<std::int64_t>(c.num_keys), kLensSeed);
  }
  // Keys that no query sees are none of the tile's.
  const std::size_t n =
      lens.empty() ? c.num_keys : static_cast<std::size_t>(*std::max_element(lens.begin(), lens.end()));
  // In +-2, so that every sum is within the first tier.
  const auto sample = [](std::size_t i) { return static_cast<float>(i * 7919 % 2003) * 0.002f - 2.0f; };
  std::vector<float> queries(m * u), query_exps(m * u), query_max(m), keys(n * u), w_v(u),
      folded_w_v(kernels::folded_w_v_size(u));
  for (std::size_t i = 0; i < queries.size(); ++i) queries[i] = sample(i);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = sample(i + 1);
  for (std::size_t i = 0; i < u; ++i) w_v[i] = 0.1f * sample(i + 2);

  const kernels::PackKernels pack = kernels::pack_kernels(target.id());
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
  const kernels::AdditiveScoreKernels kernels = kernels::additive_score_kernels(target.id());
  const float scale = kernels::fold_w_v(w_v.data(), u, folded_w_v.data());
  const kernels::ExpKeysArgs exp_keys{.rows = keys.data(),
                                      .stride = row,
                                      .num_keys = n,
                                      .num_hiddens = u,
                                      .exps = key_exps.get(),
                                      .first = 0,
                                      .num_all = n,
                                      .key_max = key_max.get()};
  kernels.exp_keys(exp_keys);
  measure(state, [&] {
    if (c.way == Way::kRational) {
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
      if (c.way == Way::kFactored) kernels.exp_keys(exp_keys);
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
                        .keys_panel_stride = u * pack.panel_width,
                        .key_exps = key_exps.get(),
                        .num_exps = n,
                        .key_max = key_max.get(),
                        .w_v = w_v.data(),
                        .folded_w_v = folded_w_v.data(),
                        .w_v_scale = scale,
                        .scores = scores.get(),
                        .scores_stride = static_cast<std::ptrdiff_t>(stride),
                        .num_queries = m,
                        .num_keys = n,
                        .num_hiddens = u,
                        .lens = lens.empty() ? nullptr : lens.data(),
                        .first_tier = detail::first_score_tier(kernels, this_cpu()),
                        .forced_tier = c.forced_tier,
                        .tier_counts = nullptr});
    }
  });
  const std::size_t pairs = lens.empty() ? m * n : std::accumulate(lens.begin(), lens.end(), std::size_t{0});
  count_elements(state, static_cast<double>(pairs * u), target);
  state.counters["valid_share"] = static_cast<double>(pairs) / static_cast<double>(m * c.num_keys);
  // What the kernels write beside the scores: exponentials and maxima, of rows of queries and of panels of keys.
  const std::size_t of_queries = c.way == Way::kRational ? 0 : m * (u + 1);
  const std::size_t of_keys = c.way == Way::kFactored ? stride * (u + 1) : 0;
  state.counters["workspace"] = bytes((of_queries + of_keys) * sizeof(float));
  state.counters["max_error"] = max_score_error({.queries = queries.data(),
                                                 .keys = keys.data(),
                                                 .w_v = w_v.data(),
                                                 .scores = scores.get(),
                                                 .scores_stride = stride,
                                                 .num_queries = m,
                                                 .num_keys = n,
                                                 .num_hiddens = u},
                                                lens.empty() ? nullptr : lens.data());
}

}  // namespace

void register_additive_score_benchmarks() {
  constexpr int kEight = static_cast<int>(kernels::ScoreTier::kEight);
  constexpr int kThree = static_cast<int>(kernels::ScoreTier::kThree);
  for (const Case& c : {Case{"additive_score/m128_n512_u256", Way::kFactored, 128, 512},
                        {"additive_score/m128_n512_u256_prepared", Way::kPrepared, 128, 512},
                        {"additive_score/m128_n512_u256_prepared_eight", Way::kPrepared, 128, 512, false, kEight},
                        {"additive_score/m128_n512_u256_prepared_three", Way::kPrepared, 128, 512, false, kThree},
                        {"additive_score/m128_n512_u256_lens", Way::kFactored, 128, 512, true},
                        {"additive_score/m3_n512_u256_prepared", Way::kPrepared, 3, 512},
                        {"additive_score/m1_n100_u256", Way::kFactored, 1, 100},
                        {"additive_score/m1_n100_u256_prepared", Way::kPrepared, 1, 100},
                        {"additive_score/m1_n100_u256_prepared_eight", Way::kPrepared, 1, 100, false, kEight},
                        {"additive_score/m1_n100_u256_prepared_three", Way::kPrepared, 1, 100, false, kThree},
                        {"additive_score/m1_n100_u256_lens", Way::kFactored, 1, 100, true},
                        {"additive_rational/m128_n512_u256", Way::kRational, 128, 512},
                        {"additive_rational/m1_n100_u256", Way::kRational, 1, 100}}) {
    for (const Target& target : Target::available()) {
      register_case(c.name, target.name(), [c, target](benchmark::State& state) { additive_score(state, target, c); });
    }
  }
}

}  // namespace attend::bench
