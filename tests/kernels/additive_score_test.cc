// Additive scores on every target against double: shapes around the panels, long sums, pre-activations that cancel,
// NaN.
#include "engine/kernels/additive_score.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/aligned_allocator.h>

#include "engine/kernels/pack.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  std::size_t num_queries, num_keys, num_hiddens;
  std::vector<float> queries, keys, w_v;  // (M, U), (N, U), (U)
  std::vector<std::int32_t> numbers{};    // (M), where the kernel is to find each query's row; empty: at its own place
};

template <class Fill>
Case make_case(std::size_t m, std::size_t n, std::size_t u, Fill&& fill) {
  Case c{m, n, u, std::vector<float>(m * u), std::vector<float>(n * u), std::vector<float>(u)};
  fill(c);
  return c;
}

// Scores (M, N). Queries and w_v end at guard pages; keys are packed as the engine packs them.
std::vector<float> direct_scores(const Target& target, const Case& c) {
  const kernels::PackKernels pack = kernels::pack_kernels(target.id());
  const std::size_t width = pack.panel_width;
  const std::size_t panels = (c.num_keys + width - 1) / width;
  const std::size_t stride = std::max<std::size_t>(panels, 1) * width;
  const auto packed = hwy::AllocateAligned<float>(std::max<std::size_t>(stride * c.num_hiddens, 1));
  const auto scores = hwy::AllocateAligned<float>(std::max<std::size_t>(stride * c.num_queries, 1));
  pack.keys({.keys = c.keys.data(),
             .keys_stride = static_cast<std::ptrdiff_t>(c.num_hiddens),
             .num_keys = c.num_keys,
             .size = c.num_hiddens,
             .center = nullptr,
             .half_norms = false,
             .panels = packed.get(),
             .panel_stride = c.num_hiddens * width});
  const std::size_t last_row =
      c.numbers.empty() ? c.num_queries
                        : 1 + static_cast<std::size_t>(*std::max_element(c.numbers.begin(), c.numbers.end()));
  GuardedArray<float> queries(last_row * c.num_hiddens), w_v(c.w_v.size());
  for (std::size_t m = 0; m < c.num_queries; ++m) {
    const std::size_t to = c.numbers.empty() ? m : static_cast<std::size_t>(c.numbers[m]);
    std::copy_n(&c.queries[m * c.num_hiddens], c.num_hiddens, &queries[to * c.num_hiddens]);
  }
  std::copy(c.w_v.begin(), c.w_v.end(), w_v.begin());
  kernels::additive_score_kernels(target.id())
      .direct({.queries = queries.data(),
               .queries_stride = static_cast<std::ptrdiff_t>(c.num_hiddens),
               .query_numbers = c.numbers.empty() ? nullptr : c.numbers.data(),
               .keys = packed.get(),
               .keys_panel_stride = c.num_hiddens * width,
               .w_v = w_v.data(),
               .scores = scores.get(),
               .scores_stride = static_cast<std::ptrdiff_t>(stride),
               .num_queries = c.num_queries,
               .num_keys = c.num_keys,
               .num_hiddens = c.num_hiddens});
  std::vector<float> result;
  for (std::size_t m = 0; m < c.num_queries; ++m) {
    result.insert(result.end(), scores.get() + m * stride, scores.get() + m * stride + c.num_keys);
  }
  return result;
}

// Largest error relative to sum|w_v|.
double worst_error(const Target& target, const Case& c) {
  const std::vector<float> scores = direct_scores(target, c);
  double magnitude = 0.0, worst = 0.0;
  for (const float w : c.w_v) magnitude += std::abs(w);
  for (std::size_t m = 0; m < c.num_queries; ++m) {
    for (std::size_t j = 0; j < c.num_keys; ++j) {
      const double truth = kernels::reference::additive_score(&c.queries[m * c.num_hiddens], &c.keys[j * c.num_hiddens],
                                                              c.w_v.data(), c.num_hiddens);
      const double error = std::abs(scores[m * c.num_keys + j] - truth) / magnitude;
      worst = worse(worst, error);
    }
  }
  return worst;
}

TEST_CASE("additive_score reference: the formula, by hand") {
  const float query[] = {0.5f, -1.0f}, key[] = {0.25f, 3.0f}, w_v[] = {2.0f, -3.0f};
  CHECK(kernels::reference::additive_score(query, key, w_v, 2) ==
        doctest::Approx(2 * std::tanh(0.75) - 3 * std::tanh(2.0)).epsilon(1e-12));
}

TEST_CASE("additive_score direct: shapes around the panels") {
  for_each_target([](const Target& target) {
    Random random(1);
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    double worst = 0.0;
    for (const std::size_t m : {0u, 1u, 2u, 3u, 4u, 5u, 9u}) {
      for (const std::size_t n :
           {std::size_t{0}, std::size_t{1}, width - 1, width, width + 1, 2 * width + 3, std::size_t{77}}) {
        for (const std::size_t u : {1u, 2u, 3u, 7u, 8u, 9u, 16u, 33u}) {
          const Case c = make_case(m, n, u, [&](Case& fill) {
            for (float& x : fill.queries) x = random.normal();
            for (float& x : fill.keys) x = random.normal();
            for (float& x : fill.w_v) x = random.normal();
          });
          const double error = worst_error(target, c);
          INFO("M=", m, " N=", n, " U=", u);
          CHECK(error <= 4e-7);
          worst = std::max(worst, error);
        }
      }
    }
    MESSAGE(target.name(), ": wrong by at most ", worst, " sum|w_v|");
  });
}

TEST_CASE("additive_score direct: within 4e-7 sum|w_v| for long sums and every size of pre-activation") {
  for_each_target([](const Target& target) {
    Random random(2);
    double worst = 0.0;
    std::string worst_case;
    const auto measure = [&](const std::string& name, const Case& c) {
      const double error = worst_error(target, c);
      INFO(name);
      CHECK(error <= 4e-7);
      if (error > worst) worst = error, worst_case = name;
    };
    for (const std::size_t u : {256u, 1000u, 4096u}) {
      const std::string suffix = ", U = " + std::to_string(u);
      for (const float spread : {1e-3f, 0.3f, 1.0f, 5.0f, 50.0f, 1e3f}) {
        measure("uniform in +-" + std::to_string(spread) + suffix, make_case(3, 70, u, [&](Case& c) {
                  for (float& x : c.queries) x = random.uniform(-spread, spread);
                  for (float& x : c.keys) x = random.uniform(-spread, spread);
                  for (float& x : c.w_v) x = random.normal();
                }));
        // q = -k up to a little: the sum is small and must come out whole.
        measure("cancelling at " + std::to_string(spread) + suffix, make_case(2, 40, u, [&](Case& c) {
                  for (std::size_t i = 0; i < u; ++i) {
                    const float x = random.uniform(-spread, spread);
                    for (std::size_t m = 0; m < 2; ++m) c.queries[m * u + i] = x + 0.1f * random.normal();
                    for (std::size_t j = 0; j < 40; ++j) c.keys[j * u + i] = -x + 0.1f * random.normal();
                    c.w_v[i] = random.uniform(0.5f, 1.0f);
                  }
                }));
      }
      // Every rounding in the same direction, as far as that can be had: equal terms, saturated and not.
      for (const float x : {0.3f, 0.77f, 2.306f, 7.64f, 20.0f}) {
        for (const float w : {0.1f, 0.7f}) {
          measure("equal terms tanh(" + std::to_string(x) + ") " + std::to_string(w) + suffix,
                  make_case(1, 2, u, [&](Case& c) {
                    std::fill(c.queries.begin(), c.queries.end(), x);
                    std::fill(c.w_v.begin(), c.w_v.end(), w);
                  }));
        }
      }
    }
    MESSAGE(target.name(), ": wrong by at most ", worst, " sum|w_v| (", worst_case, ")");
  });
}

TEST_CASE("additive_score direct: a score does not depend on what stands beside it") {
  for_each_target([](const Target& target) {
    Random random(3);
    const Case c = make_case(7, 100, 50, [&](Case& fill) {
      for (float& x : fill.queries) x = random.normal();
      for (float& x : fill.keys) x = random.normal();
      for (float& x : fill.w_v) x = random.normal();
    });
    const std::vector<float> all = direct_scores(target, c);
    for (const std::size_t m : {0u, 3u, 6u}) {
      for (const std::size_t j : {0u, 1u, 63u, 64u, 99u}) {
        const auto row = [](const std::vector<float>& rows, std::size_t r) {
          const auto first = rows.begin() + static_cast<std::ptrdiff_t>(r * 50);
          return std::vector<float>(first, first + 50);
        };
        CHECK(direct_scores(target, {1, 1, 50, row(c.queries, m), row(c.keys, j), c.w_v})[0] == all[m * 100 + j]);
      }
    }
  });
}

TEST_CASE("additive_score direct: queries that stand elsewhere, one row twice") {
  for_each_target([](const Target& target) {
    Random random(4);
    Case c = make_case(5, 35, 20, [&](Case& fill) {
      for (float& x : fill.queries) x = random.normal();
      for (float& x : fill.keys) x = random.normal();
      for (float& x : fill.w_v) x = random.normal();
    });
    std::copy_n(c.queries.begin() + 20, 20, c.queries.begin() + 40);
    c.numbers = {6, 3, 3, 0, 8};
    CHECK(worst_error(target, c) <= 4e-7);
  });
}

TEST_CASE("additive_score direct: NaN spreads to its scores only, infinite pre-activations saturate") {
  for_each_target([](const Target& target) {
    constexpr std::size_t kQueries = 3, kKeys = 70, kHiddens = 19;
    const auto ones = [](Case& c) {
      std::fill(c.queries.begin(), c.queries.end(), 0.5f);
      std::fill(c.w_v.begin(), c.w_v.end(), 1.0f);
    };
    for (std::size_t u = 0; u < kHiddens; ++u) {
      Case c = make_case(kQueries, kKeys, kHiddens, ones);
      c.queries[1 * kHiddens + u] = kNaN;
      c.keys[5 * kHiddens + u] = kNaN;
      c.keys[69 * kHiddens + u] = -kNaN;
      const std::vector<float> scores = direct_scores(target, c);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const bool nan = i / kKeys == 1 || i % kKeys == 5 || i % kKeys == 69;
        wrong += std::isnan(scores[i]) == nan ? 0u : 1u;
      }
      CHECK(wrong == 0);
    }
    Case c = make_case(kQueries, kKeys, kHiddens, ones);
    std::fill_n(c.queries.begin(), kHiddens, kInf);
    std::fill_n(c.queries.begin() + kHiddens, kHiddens, -1e38f);
    const std::vector<float> scores = direct_scores(target, c);
    CHECK(scores[0] == doctest::Approx(19.0).epsilon(1e-6));
    CHECK(scores[kKeys] == doctest::Approx(-19.0).epsilon(1e-6));
  });
}

}  // namespace
}  // namespace attend::tests
