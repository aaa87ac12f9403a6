// Factored scores on every target against double: each tier at and across its border, given ranges, lengths, weights of
// every size, NaN; and that a row's bits are its own.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/aligned_allocator.h>

#include "engine/kernels/additive_score.h"
#include "engine/kernels/pack.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using kernels::ScoreTier;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kBound = 4e-7;  // of sum|w_v|

struct Case {
  std::size_t num_queries, num_keys, num_hiddens;
  std::vector<float> queries, keys, w_v;  // (M, U), (N, U), (U)
  std::vector<std::int32_t> lens;         // (M) or empty
};

template <class Fill>
Case make_case(std::size_t m, std::size_t n, std::size_t u, Fill&& fill) {
  Case c{m, n, u, std::vector<float>(m * u), std::vector<float>(n * u), std::vector<float>(u), {}};
  fill(c);
  return c;
}

// Queries within +-a, keys within +-b with one hidden unit of each at the end of its range, normal weights.
Case uniform_case(Random& random, std::size_t m, std::size_t n, std::size_t u, float a, float b) {
  return make_case(m, n, u, [&](Case& c) {
    for (float& x : c.queries) x = random.uniform(-a, a);
    for (float& x : c.keys) x = random.uniform(-b, b);
    for (float& x : c.w_v) x = random.normal();
    for (std::size_t i = 0; i < m; ++i) c.queries[i * u + i % u] = i % 2 == 0 ? a : -a;
    for (std::size_t j = 0; j < n; ++j) c.keys[j * u + j % u] = j % 3 == 0 ? b : -b;
  });
}

struct Scores {
  std::vector<float> scores;  // (M, N)
  std::array<std::uint32_t, kernels::kNumScoreTiers> tier_counts{};
};

std::size_t panel_width(const Target& target) { return kernels::pack_kernels(target.id()).panel_width; }

// All that rows are made of ends at guard pages; keys are packed as the engine packs them. garbage: what stands in the
// columns of the last panel beyond num_keys.
Scores factored_scores(const Target& target, const Case& c, int forced_tier = -1, float garbage = 0.0f) {
  const kernels::PackKernels pack = kernels::pack_kernels(target.id());
  const kernels::AdditiveScoreKernels kernels = kernels::additive_score_kernels(target.id());
  const std::size_t width = pack.panel_width;
  const std::size_t stride = (std::max<std::size_t>(c.num_keys, 1) + width - 1) / width * width;
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(c.num_hiddens);
  const auto panels = hwy::AllocateAligned<float>(std::max<std::size_t>(stride * c.num_hiddens, 1));
  const auto exps = hwy::AllocateAligned<float>(std::max<std::size_t>(stride * c.num_hiddens, 1));
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
  if (c.num_keys != 0) {
    for (std::size_t j = c.num_keys; j < stride; ++j) {
      for (std::size_t u = 0; u < c.num_hiddens; ++u) {
        panels.get()[(stride / width - 1) * c.num_hiddens * width + u * width + j % width] = garbage;
      }
    }
  }
  GuardedArray<float> queries(c.queries.size()), query_exps(c.queries.size()), query_max(c.num_queries);
  GuardedArray<float> w_v(c.w_v.size()), folded_w_v(kernels::folded_w_v_size(c.w_v.size()));
  GuardedArray<std::int32_t> lens(c.lens.size());
  std::copy(c.queries.begin(), c.queries.end(), queries.begin());
  std::copy(c.w_v.begin(), c.w_v.end(), w_v.begin());
  std::copy(c.lens.begin(), c.lens.end(), lens.begin());
  const float scale = kernels::fold_w_v(w_v.data(), c.num_hiddens, folded_w_v.data());
  kernels.exp_panels({.panels = panels.get(),
                      .panel_stride = c.num_hiddens * width,
                      .num_keys = c.num_keys,
                      .num_hiddens = c.num_hiddens,
                      .exps = exps.get(),
                      .key_max = key_max.get()});
  kernels.exp_rows({.rows = queries.data(),
                    .stride = row,
                    .num_rows = c.num_queries,
                    .num_hiddens = c.num_hiddens,
                    .exps = query_exps.data(),
                    .exps_stride = row,
                    .row_max = query_max.data()});
  Scores result;
  kernels.factored({.queries = queries.data(),
                    .queries_stride = row,
                    .query_exps = query_exps.data(),
                    .query_exps_stride = row,
                    .query_max = query_max.data(),
                    .keys = panels.get(),
                    .key_exps = exps.get(),
                    .keys_panel_stride = c.num_hiddens * width,
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
                    .forced_tier = forced_tier,
                    .tier_counts = result.tier_counts.data()});
  for (std::size_t m = 0; m < c.num_queries; ++m) {
    result.scores.insert(result.scores.end(), scores.get() + m * stride, scores.get() + m * stride + c.num_keys);
  }
  return result;
}

// Collects the largest error relative to sum|w_v| of one target.
struct Worst {
  double error = 0.0;
  std::string name;

  void measure(const Target& target, const std::string& case_name, const Case& c, int forced_tier = -1) {
    const std::vector<float> scores = factored_scores(target, c, forced_tier).scores;
    double magnitude = 0.0, worst = 0.0;
    for (const float w : c.w_v) magnitude += std::abs(static_cast<double>(w));
    for (std::size_t m = 0; m < c.num_queries; ++m) {
      for (std::size_t j = 0; j < c.num_keys; ++j) {
        const double truth = kernels::reference::additive_score(
            &c.queries[m * c.num_hiddens], &c.keys[j * c.num_hiddens], c.w_v.data(), c.num_hiddens);
        const double difference = std::abs(scores[m * c.num_keys + j] - truth);
        const double relative = magnitude == 0.0 ? (difference == 0.0 ? 0.0 : 1.0) : difference / magnitude;
        if (!(relative <= worst)) worst = relative;
      }
    }
    INFO(case_name, " M=", c.num_queries, " N=", c.num_keys, " U=", c.num_hiddens, " forced tier ", forced_tier);
    CHECK(worst <= kBound);
    if (!(worst <= error)) {
      error = worst;
      name = case_name + " M=" + std::to_string(c.num_queries) + " N=" + std::to_string(c.num_keys) +
             " U=" + std::to_string(c.num_hiddens) + " forced tier " + std::to_string(forced_tier);
    }
  }
  void report(const Target& target) const {
    MESSAGE(target.name(), ": wrong by at most ", error, " sum|w_v| (", name, ")");
  }
};

constexpr std::size_t kHiddens[] = {1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 256, 1000, 4096};

TEST_CASE("factored score: weights are scaled by a power of two and folded") {
  std::vector<float> folded;
  const auto fold = [&](const std::vector<float>& w_v) {
    folded.assign(kernels::folded_w_v_size(w_v.size()), kNaN);
    return kernels::fold_w_v(w_v.data(), w_v.size(), folded.data());
  };
  CHECK(fold({3.0f, -5.0f, 0.25f, 1.0f, 2.0f}) == 8.0f);
  CHECK(folded == std::vector<float>{-0.75f, 1.25f, -0.0625f, -0.25f, -0.25f, 0.15625f,  //
                                     -0.5f, 0.0f, 0.0f, 0.0f, 0.25f, 0.0f});
  CHECK(fold({1.0f}) == 2.0f);
  CHECK(fold({0.0f, 0.0f}) == 1.0f);
  CHECK(fold({}) == 1.0f);
  CHECK(fold({kInf}) == 1.0f);
  CHECK(fold({kNaN, 2.0f}) == 4.0f);
  CHECK(folded[1] == -1.0f);
  CHECK(fold({std::numeric_limits<float>::max()}) == 0x1p127f);
  CHECK(fold({0x1p-149f}) == 0x1p-148f);
  CHECK(folded[0] == -1.0f);
  fold({1e30f, 1e-30f});
  CHECK(folded[1] == 0.0f);
}

TEST_CASE("factored score: exponentials and maxima") {
  for_each_target([](const Target& target) {
    const kernels::AdditiveScoreKernels kernels = kernels::additive_score_kernels(target.id());
    for (const std::size_t u : {1u, 7u, 16u, 33u}) {
      GuardedArray<float> rows(3 * u), exps(3 * u), max(3);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = 0.1f * static_cast<float>(i) - 4.0f;
      rows[u] = -kInf;
      if (u > 1) rows[2 * u + u - 1] = kNaN;
      const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(u);
      kernels.exp_rows({.rows = rows.data(),
                        .stride = stride,
                        .num_rows = 3,
                        .num_hiddens = u,
                        .exps = exps.data(),
                        .exps_stride = stride,
                        .row_max = max.data()});
      for (std::size_t m = 0; m < 3; ++m) {
        float expected = 0.0f;
        for (std::size_t i = m * u; i < (m + 1) * u; ++i) {
          expected = std::fmax(expected, std::abs(rows[i]));
          if (std::isnan(rows[i])) {
            CHECK(std::isnan(exps[i]));
          } else {
            CHECK(exps[i] == doctest::Approx(std::exp(2.0 * rows[i])).epsilon(3e-7));
          }
        }
        CHECK(max[m] == expected);
      }
    }
  });
}

TEST_CASE("factored score: every number of queries, keys and hidden units") {
  for_each_target([](const Target& target) {
    Random random(1);
    const std::size_t width = panel_width(target);
    Worst worst;
    for (const std::size_t m : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u}) {
      for (const std::size_t n : {std::size_t{0}, std::size_t{1}, width - 1, width, width + 1, 2 * width + 3}) {
        for (const std::size_t u : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 33u}) {
          worst.measure(target, "normal", uniform_case(random, m, n, u, 2.0f, 3.0f));
          worst.measure(target, "clamped", uniform_case(random, m, n, u, 12.0f, 3.0f));
        }
      }
    }
    for (const std::size_t u : kHiddens) worst.measure(target, "normal", uniform_case(random, 3, 70, u, 2.0f, 3.0f));
    worst.report(target);
  });
}

TEST_CASE("factored score: within 4e-7 sum|w_v| at and across the borders of the tiers") {
  for_each_target([](const Target& target) {
    Random random(2);
    Worst worst[kernels::kNumScoreTiers + 1];
    const auto measure = [&](const std::string& name, const Case& c, float a, float b) {
      worst[3].measure(target, name, c);
      if (a + b <= 11.0f) worst[0].measure(target, name, c, 0);
      if (a <= 43.0f && b <= 43.0f) worst[1].measure(target, name, c, 1);
      worst[2].measure(target, name, c, 2);
    };
    for (const std::size_t u : kHiddens) {
      const std::size_t m = u > 500 ? 2 : 5, n = u > 500 ? 17 : 40;
      for (const float a :
           {0.01f, 1.0f, 4.9f, 5.0f, 5.1f, 10.0f, 10.1f, 11.0f, 42.0f, 43.0f, 43.1f, 44.0f, 90.0f, 1e3f}) {
        for (const float b : {0.01f, 1.0f, 5.0f, 43.0f, a}) {
          if (u > 500 && b != 1.0f && b != a) continue;
          measure("a " + std::to_string(a) + " b " + std::to_string(b), uniform_case(random, m, n, u, a, b), a, b);
        }
        // a + b cancels to a little, or to nothing.
        for (const float spread : {0.0f, 1.0f}) {
          measure("cancelling " + std::to_string(a),
                  make_case(m, n, u,
                            [&](Case& c) {
                              for (std::size_t i = 0; i < u; ++i) {
                                const float x = random.uniform(0.0f, 1.0f) < 0.5f ? a : -a;
                                for (std::size_t k = 0; k < m; ++k) c.queries[k * u + i] = x;
                                for (std::size_t j = 0; j < n; ++j) {
                                  const float y = x * (1.0f - spread / std::max(a, 1.0f) * random.uniform(0.0f, 1.0f));
                                  c.keys[j * u + i] = -y;
                                }
                                c.w_v[i] = random.uniform(0.5f, 1.0f);
                              }
                            }),
                  a, a);
        }
      }
    }
    for (int tier = 0; tier < 4; ++tier) {
      INFO("tier ", tier, " (3: by range)");
      worst[tier].report(target);
    }
  });
}

TEST_CASE("factored score: equal terms, whose roundings add up") {
  for_each_target([](const Target& target) {
    Random random(3);
    Worst worst;
    for (const std::size_t u : kHiddens) {
      const std::size_t rounds = u > 500 ? 1 : 8;
      for (std::size_t round = 0; round < rounds; ++round) {
        const float w = random.uniform(0.5f, 1.0f);
        // Keys are the sweep over the sum: 200 of them from -12 to 12.
        const Case c = make_case(1, 200, u, [&](Case& fill) {
          std::fill(fill.queries.begin(), fill.queries.end(), random.uniform(-1.0f, 1.0f));
          for (std::size_t j = 0; j < 200; ++j) {
            const float x = random.uniform(-6.0f, 6.0f) * (j % 2 == 0 ? 1.0f : 0.2f);
            std::fill_n(fill.keys.begin() + static_cast<std::ptrdiff_t>(j * u), u, x);
          }
          std::fill(fill.w_v.begin(), fill.w_v.end(), round % 2 == 0 ? w : -w);
        });
        for (const int tier : {-1, 0, 1}) worst.measure(target, "equal terms", c, tier);
      }
    }
    worst.report(target);
  });
}

TEST_CASE("factored score: weights of every size") {
  for_each_target([](const Target& target) {
    Random random(4);
    Worst worst;
    for (const float range : {2.0f, 9.0f, 30.0f, 100.0f}) {
      for (const std::size_t u : {1u, 5u, 64u, 257u}) {
        Case c = uniform_case(random, 5, 70, u, range, range);
        for (const float size : {0.0f, 1e30f, 1e-30f, 1.0f, 3e35f}) {
          for (float& w : c.w_v) w = size * random.uniform(-1.0f, 1.0f);
          worst.measure(target, "weights " + std::to_string(size), c);
        }
        for (std::size_t i = 0; i < u; ++i) {
          c.w_v[i] = (i % 2 == 0 ? 1.0f : -1.0f) * (i % 3 == 0 ? 1e30f : i % 3 == 1 ? 1e-30f : 0.0f);
        }
        worst.measure(target, "mixed weights", c);
        std::fill(c.w_v.begin(), c.w_v.end(), 0.0f);
        for (const float score : factored_scores(target, c).scores) CHECK(score == 0.0f);
      }
    }
    worst.report(target);
  });
}

TEST_CASE("factored score: tiers are chosen by what each query sees of each panel, and counted") {
  for_each_target([](const Target& target) {
    const std::size_t width = panel_width(target);
    const auto counts = [&](float a, float b) {
      Case c = make_case(1, 1, 3, [&](Case& fill) { fill.queries[2] = a, fill.keys[1] = b; });
      return factored_scores(target, c).tier_counts;
    };
    using Counts = std::array<std::uint32_t, 3>;
    CHECK(counts(0.0f, 0.0f) == Counts{1, 0, 0});
    CHECK(counts(-4.0f, 6.0f) == Counts{1, 0, 0});
    CHECK(counts(4.0f, -6.001f) == Counts{0, 1, 0});
    CHECK(counts(-43.0f, -43.0f) == Counts{0, 1, 0});
    CHECK(counts(43.001f, 0.0f) == Counts{0, 0, 1});
    CHECK(counts(0.0f, -43.001f) == Counts{0, 0, 1});
    CHECK(counts(-kInf, 0.0f) == Counts{0, 0, 1});
    CHECK(counts(0.0f, kInf) == Counts{0, 0, 1});
    CHECK(counts(kNaN, 1.0f) == Counts{1, 0, 0});

    // Key `width` (the second panel's first) is large, key width + 1 huge; seven queries, the fifth large by itself.
    Case c = make_case(7, 2 * width + 1, 2, [&](Case& fill) {
      std::fill(fill.w_v.begin(), fill.w_v.end(), 1.0f);
      fill.keys[width * 2] = 20.0f;
      fill.keys[(width + 1) * 2] = 200.0f;
      fill.queries[4 * 2] = 11.0f;
    });
    CHECK(factored_scores(target, c).tier_counts == Counts{12, 2, 7});
    const std::int32_t w = static_cast<std::int32_t>(width);
    c.lens = {0, w, w + 1, w + 2, w, 1, -3};
    CHECK(factored_scores(target, c).tier_counts == Counts{4, 1 + 1, 1});
    c.lens.assign(7, 1000000);
    CHECK(factored_scores(target, c).tier_counts == Counts{12, 2, 7});
  });
}

TEST_CASE("factored score: a row's bits are its own") {
  for_each_target([](const Target& target) {
    Random random(5);
    const std::size_t width = panel_width(target);
    const std::size_t n = 2 * width + width / 2 + 1;
    for (const std::size_t u : {1u, 6u, 35u, 64u}) {
      // Queries of all tiers side by side, so that every grouping of rows happens.
      for (const float range : {2.0f, 8.0f, 60.0f}) {
        Case c = uniform_case(random, 9, n, u, 3.0f, 5.0f);
        for (std::size_t m = 0; m < 9; ++m) {
          if (m % 4 == 1) c.queries[m * u] = range;
          if (m == 6) c.queries[m * u] = -range;
        }
        const std::vector<float> all = factored_scores(target, c).scores;
        std::vector<float> expected;
        for (std::size_t m = 0; m < 9; ++m) {
          const auto first = c.queries.begin() + static_cast<std::ptrdiff_t>(m * u);
          const Case row{1, n, u, std::vector<float>(first, first + static_cast<std::ptrdiff_t>(u)), c.keys, c.w_v, {}};
          const std::vector<float> alone = factored_scores(target, row).scores;
          expected.insert(expected.end(), alone.begin(), alone.end());
        }
        CHECK(same_bits(all, expected));
        for (int tier = 0; tier < 3; ++tier) {
          if (range > 5.0f && tier == 0) continue;
          if (range > 43.0f && tier == 1) continue;
          const std::vector<float> forced = factored_scores(target, c, tier).scores;
          for (std::size_t m = 0; m < 9; ++m) {
            const auto first = c.queries.begin() + static_cast<std::ptrdiff_t>(m * u);
            const Case row{1,      n,     u, std::vector<float>(first, first + static_cast<std::ptrdiff_t>(u)),
                           c.keys, c.w_v, {}};
            CHECK(same_bits(factored_scores(target, row, tier).scores.data(), forced.data() + m * n, n));
          }
        }
      }
    }
  });
}

TEST_CASE("factored score: keys that a query does not see change nothing") {
  for_each_target([](const Target& target) {
    Random random(6);
    const std::size_t width = panel_width(target);
    const std::size_t n = 2 * width + 1, u = 13;
    const std::int32_t w = static_cast<std::int32_t>(width);
    Case c = uniform_case(random, 9, n, u, 3.0f, 4.0f);
    for (const std::vector<std::int32_t>& lens :
         {std::vector<std::int32_t>{1, 2, 3, w - 1, w, w + 1, 2 * w, 2 * w + 1, 0},
          std::vector<std::int32_t>{w / 2, w / 2, w / 2, w / 2, w / 2, w / 2, w / 2, 1, 1}}) {
      c.lens = lens;
      const std::vector<float> clean = factored_scores(target, c).scores;
      for (std::size_t m = 0; m < 9; ++m) {
        const std::size_t len = static_cast<std::size_t>(lens[m]);
        // As if the call had no other keys.
        const Case cut{
            9, len, u, c.queries, {c.keys.begin(), c.keys.begin() + static_cast<std::ptrdiff_t>(len * u)}, c.w_v, {}};
        CHECK(same_bits(factored_scores(target, cut).scores.data() + m * len, clean.data() + m * n, len));
        for (const float garbage : {kNaN, 1e38f, kInf, 42.0f}) {
          Case dirty = c;
          std::fill(dirty.keys.begin() + static_cast<std::ptrdiff_t>(len * u), dirty.keys.end(), garbage);
          const std::vector<float> scores = factored_scores(target, dirty, -1, garbage).scores;
          CHECK(same_bits(scores.data() + m * n, clean.data() + m * n, len));
          // Columns of the panel beyond the call's keys, likewise.
          CHECK(
              same_bits(factored_scores(target, cut, -1, garbage).scores.data() + m * len, clean.data() + m * n, len));
        }
      }
    }
  });
}

TEST_CASE("factored score: NaN spreads to its scores only, infinities saturate") {
  for_each_target([](const Target& target) {
    constexpr std::size_t kQueries = 6, kKeys = 70;
    for (const std::size_t hiddens : {1u, 2u, 3u, 4u, 19u, 36u}) {
      for (std::size_t u = 0; u < hiddens; ++u) {
        for (const int tier : {-1, 0, 1, 2}) {
          Case c = make_case(kQueries, kKeys, hiddens, [&](Case& fill) {
            std::fill(fill.queries.begin(), fill.queries.end(), tier == 1 ? 43.0f : 0.5f);
            std::fill(fill.w_v.begin(), fill.w_v.end(), 1.0f);
          });
          c.queries[1 * hiddens + u] = kNaN;
          c.keys[5 * hiddens + u] = kNaN;
          c.keys[69 * hiddens + u] = -kNaN;
          const std::vector<float> scores = factored_scores(target, c, tier).scores;
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < scores.size(); ++i) {
            const bool nan = i / kKeys == 1 || i % kKeys == 5 || i % kKeys == 69;
            wrong += std::isnan(scores[i]) == nan ? 0u : 1u;
          }
          CHECK(wrong == 0);
        }
      }
    }
    Case c = make_case(4, kKeys, 19, [](Case& fill) {
      std::fill(fill.queries.begin(), fill.queries.end(), 0.5f);
      std::fill(fill.w_v.begin(), fill.w_v.end(), 1.0f);
      std::fill_n(fill.queries.begin(), 19, kInf);
      std::fill_n(fill.queries.begin() + 19, 19, -1e38f);
      std::fill_n(fill.keys.begin() + 19, 19, -kInf);
    });
    const std::vector<float> scores = factored_scores(target, c).scores;
    CHECK(scores[0] == doctest::Approx(19.0).epsilon(1e-6));
    CHECK(std::isnan(scores[1]));
    CHECK(scores[kKeys] == doctest::Approx(-19.0).epsilon(1e-6));
    CHECK(scores[2 * kKeys + 1] == doctest::Approx(-19.0).epsilon(1e-6));
  });
}

}  // namespace
}  // namespace attend::tests
