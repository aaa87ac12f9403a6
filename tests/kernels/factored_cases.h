// Cases of the factored score and their scores on a target, for the tests of it.
#ifndef ATTEND_TESTS_KERNELS_FACTORED_CASES_H_
#define ATTEND_TESTS_KERNELS_FACTORED_CASES_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <hwy/aligned_allocator.h>

#include "attend/target.h"
#include "engine/kernels/additive_score.h"
#include "engine/kernels/pack.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  std::size_t num_queries, num_keys, num_hiddens;
  std::vector<float> queries, keys, w_v;  // (M, U), (N, U), (U)
  std::vector<std::int32_t> lens;         // (M) or empty
  std::vector<std::int32_t> numbers{};    // (M), where the kernel is to find each query's row; empty: at its own place
};

template <class Fill>
Case make_case(std::size_t m, std::size_t n, std::size_t u, Fill&& fill) {
  Case c{m, n, u, std::vector<float>(m * u), std::vector<float>(n * u), std::vector<float>(u), {}};
  fill(c);
  return c;
}

// Queries within +-a, keys within +-b with one hidden unit of each at the end of its range, normal weights.
inline Case uniform_case(Random& random, std::size_t m, std::size_t n, std::size_t u, float a, float b) {
  return make_case(m, n, u, [&](Case& c) {
    for (float& x : c.queries) x = random.uniform(-a, a);
    for (float& x : c.keys) x = random.uniform(-b, b);
    for (float& x : c.w_v) x = random.normal();
    for (std::size_t i = 0; i < m; ++i) c.queries[i * u + i % u] = i % 2 == 0 ? a : -a;
    for (std::size_t j = 0; j < n; ++j) c.keys[j * u + j % u] = j % 3 == 0 ? b : -b;
  });
}

using TierCounters = std::array<std::uint32_t, kernels::kNumScoreTiers>;

struct Scores {
  std::vector<float> scores;  // (M, N)
  TierCounters tier_counts{};
};

inline std::size_t panel_width(const Target& target) { return kernels::pack_kernels(target.id()).panel_width; }

// All that rows are made of ends at guard pages; keys are packed as the engine packs them. garbage: what stands in the
// columns of the last panel beyond num_keys. first_tier: of those chosen by range.
inline Scores factored_scores(const Target& target, const Case& c, int forced_tier = -1, float garbage = 0.0f,
                              std::span<kernels::PrefetchRows> ahead = {}, std::size_t ahead_lines = 0,
                              kernels::ScoreTier first_tier = kernels::ScoreTier::kEight) {
  const kernels::PackKernels pack = kernels::pack_kernels(target.id());
  const kernels::AdditiveScoreKernels kernels = kernels::additive_score_kernels(target.id());
  const std::size_t width = pack.panel_width, lanes = kernels.lanes;
  const std::size_t stride = (std::max<std::size_t>(c.num_keys, 1) + width - 1) / width * width;
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(c.num_hiddens);
  const auto panels = hwy::AllocateAligned<float>(std::max<std::size_t>(stride * c.num_hiddens, 1));
  const std::size_t last = (std::max<std::size_t>(c.num_keys, 1) - 1) / lanes * lanes;
  const std::size_t narrow = kernels::exps_width(c.num_keys - last, lanes);
  GuardedArray<float> exps(((last + narrow) * c.num_hiddens + lanes - 1) / lanes * lanes);
  const auto key_max = hwy::AllocateAligned<float>(stride);
  const auto scores = hwy::AllocateAligned<float>(std::max<std::size_t>(stride * c.num_queries, 1));
  pack.keys({.keys = c.keys.data(),
             .keys_stride = row,
             .num_keys = c.num_keys,
             .size = c.num_hiddens,
             .center = nullptr,
             .half_norms = false,
             .panels = panels.get(),
             .panel_stride = c.num_hiddens * width});
  const std::size_t last_row =
      c.numbers.empty() ? c.num_queries
                        : 1 + static_cast<std::size_t>(*std::max_element(c.numbers.begin(), c.numbers.end()));
  GuardedArray<float> queries(last_row * c.num_hiddens), query_exps(c.queries.size()), query_max(c.num_queries);
  GuardedArray<float> w_v(c.w_v.size()), folded_w_v(kernels::folded_w_v_size(c.w_v.size()));
  GuardedArray<std::int32_t> lens(c.lens.size());
  for (std::size_t m = 0; m < c.num_queries; ++m) {
    const std::size_t to = c.numbers.empty() ? m : static_cast<std::size_t>(c.numbers[m]);
    std::copy_n(&c.queries[m * c.num_hiddens], c.num_hiddens, &queries[to * c.num_hiddens]);
  }
  std::copy(c.w_v.begin(), c.w_v.end(), w_v.begin());
  std::copy(c.lens.begin(), c.lens.end(), lens.begin());
  const float scale = kernels::fold_w_v(w_v.data(), c.num_hiddens, folded_w_v.data());
  kernels.exp_keys({.rows = c.keys.data(),
                    .stride = row,
                    .num_keys = c.num_keys,
                    .num_hiddens = c.num_hiddens,
                    .exps = exps.data(),
                    .first = 0,
                    .num_all = c.num_keys,
                    .key_max = key_max.get()});
  if (c.num_keys != 0) {
    for (std::size_t u = 0; u < c.num_hiddens; ++u) {
      for (std::size_t j = c.num_keys; j < stride; ++j) {
        const std::size_t place = (stride / width - 1) * c.num_hiddens * width + u * width + j % width;
        panels.get()[place] = garbage;
      }
      for (std::size_t j = c.num_keys; j < last + narrow; ++j) {
        exps[last * c.num_hiddens + u * narrow + j - last] = std::exp(2 * garbage);
      }
    }
  }
  kernels.exp_rows({.rows = c.queries.data(),
                    .stride = row,
                    .num_rows = c.num_queries,
                    .num_hiddens = c.num_hiddens,
                    .factors = folded_w_v.data(),
                    .exps = query_exps.data(),
                    .exps_stride = row,
                    .row_max = query_max.data()});
  Scores result;
  kernels.factored({.queries = queries.data(),
                    .queries_stride = row,
                    .query_numbers = c.numbers.empty() ? nullptr : c.numbers.data(),
                    .query_exps = query_exps.data(),
                    .query_exps_stride = row,
                    .query_max = query_max.data(),
                    .keys = panels.get(),
                    .keys_panel_stride = c.num_hiddens * width,
                    .key_exps = exps.data(),
                    .num_exps = c.num_keys,
                    .key_max = key_max.get(),
                    .w_v = w_v.data(),
                    .folded_w_v = folded_w_v.data(),
                    .w_v_scale = scale,
                    .scores = scores.get(),
                    .scores_stride = static_cast<std::ptrdiff_t>(stride),
                    .num_queries = c.num_queries,
                    .num_keys = c.num_keys,
                    .num_hiddens = c.num_hiddens,
                    .lens = c.lens.empty() ? nullptr : lens.data(),
                    .first_tier = first_tier,
                    .forced_tier = forced_tier,
                    .tier_counts = result.tier_counts.data(),
                    .ahead = ahead,
                    .ahead_lines = ahead_lines});
  for (std::size_t m = 0; m < c.num_queries; ++m) {
    result.scores.insert(result.scores.end(), scores.get() + m * stride, scores.get() + m * stride + c.num_keys);
  }
  return result;
}

// What fold_w_v finds for the weights of a case: the largest max|a| + max|b| of each tier but the last.
inline std::array<float, kernels::kNumScoreTiers - 1> tier_ranges(const std::vector<float>& w_v) {
  std::vector<float> folded(kernels::folded_w_v_size(w_v.size()));
  kernels::fold_w_v(w_v.data(), w_v.size(), folded.data());
  std::array<float, kernels::kNumScoreTiers - 1> ranges;
  std::copy(folded.end() - static_cast<std::ptrdiff_t>(ranges.size()), folded.end(), ranges.begin());
  return ranges;
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_KERNELS_FACTORED_CASES_H_
