// The factored score on every target: folded weights, exponentials, the choice of the tier, lengths, NaN, and that a
// row's bits are its own. Errors: factored_score_error_test.cc.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/additive_score.h"
#include "tests/kernels/factored_cases.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using kernels::ScoreTier;

TEST_CASE("factored score: weights are scaled by a power of two and folded") {
  std::vector<float> folded;
  const auto fold = [&](const std::vector<float>& w_v) {
    folded.assign(kernels::folded_w_v_size(w_v.size()), kNaN);
    return kernels::fold_w_v(w_v.data(), w_v.size(), folded.data());
  };
  const std::vector<float> w_v = {3.0f, -5.0f, 0.25f, 1.0f, 2.0f, -0.5f, 7.0f, 4.0f, 1.5f};
  CHECK(fold(w_v) == 8.0f);
  for (std::size_t i = 0; i < w_v.size(); ++i) {
    const float* constants = &folded[16 + i / 8 * 16];
    CHECK(constants[15] / (2.0f * folded[i]) == doctest::Approx(w_v[i] / 8.0f).epsilon(1e-6));
    CHECK(constants[15] * constants[i % 8] == doctest::Approx(w_v[i] / 8.0f).epsilon(1e-6));
  }
  CHECK(folded[16 + 15] * folded[16 + 8 + 1] == doctest::Approx(1.25f / 8.0f).epsilon(1e-6));   // 0.25 + 1
  CHECK(folded[16 + 15] * folded[16 + 12 + 1] == doctest::Approx(12.5f / 8.0f).epsilon(1e-6));  // 2 - 0.5 + 7 + 4
  CHECK(folded[16 + 15] * folded[16 + 14] == doctest::Approx(11.75f / 8.0f).epsilon(1e-6));     // all eight
  double log2_product = 0.0;
  for (std::size_t i = 0; i < 8; ++i) log2_product += std::log2(std::abs(folded[i]));
  CHECK(log2_product == doctest::Approx(8 * std::log2(1.8 * 0x1p-16)).epsilon(1e-6));

  CHECK(fold({1.0f}) == 2.0f);
  CHECK(fold({0.0f, 0.0f}) == 0.0f);
  CHECK(fold({}) == 0.0f);
  CHECK(fold({kInf}) == 1.0f);
  CHECK(fold({kNaN, 2.0f}) == 1.0f);
  CHECK(fold({std::numeric_limits<float>::max()}) == 0x1p127f);
  CHECK(fold({0x1p-149f}) == 0x1p-148f);
  fold({1e30f, 1e-30f, 0.0f, -0.0f});
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::isfinite(folded[i]));
}

TEST_CASE("factored score: ranges follow from the weights") {
  const auto near = [](const std::vector<float>& w_v, std::array<float, 5> expected) {
    const auto ranges = tier_ranges(w_v);
    for (std::size_t tier = 0; tier < 5; ++tier) CHECK(ranges[tier] == doctest::Approx(expected[tier]).epsilon(0.01));
  };
  near(std::vector<float>(256, 0.3f), {9.96f, 14.9f, 17.98f, 24.7f, 43.8f});
  Random random(7);
  std::vector<float> w_v(256);
  for (float& w : w_v) w = random.normal();
  CHECK(tier_ranges(w_v)[0] > 9.5f);
  for (std::size_t i = 0; i < 256; i += 4) w_v[i] = 0.0f;
  CHECK(tier_ranges(w_v)[0] > 9.0f);
  // Four ones and all else zero have no common fraction; infinite weights none at all.
  std::fill(w_v.begin(), w_v.end(), 0.0f);
  std::fill_n(w_v.begin(), 4, 1.0f);
  CHECK(tier_ranges(w_v)[0] == -1.0f);
  CHECK(tier_ranges(w_v)[2] == -1.0f);
  CHECK(tier_ranges(w_v)[3] > 20.0f);
  w_v[0] = kInf;
  for (const float range : tier_ranges(w_v)) CHECK(range == -1.0f);
}

TEST_CASE("factored score: exponentials and maxima of rows, slices of wider ones") {
  for_each_target([](const Target& target) {
    const kernels::AdditiveScoreKernels kernels = kernels::additive_score_kernels(target.id());
    for (const std::size_t u : {1u, 7u, 16u, 33u, 64u, 100u}) {
      // Rows: common values, an infinity, a NaN, values whose exponentials overflow and vanish.
      constexpr std::size_t kRows = 5;
      const std::size_t stride = u + 3, exps_stride = u + 5;
      GuardedArray<float> rows(kRows * stride - 3), exps(kRows * exps_stride - 5), max(kRows), factors(u);
      std::fill(exps.begin(), exps.end(), 7.0f);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = 0.1f * static_cast<float>(i % stride) - 4.0f;
      rows[stride] = -kInf;
      rows[2 * stride + u - 1] = kNaN;
      for (std::size_t i = 0; i < u; ++i) rows[3 * stride + i] = i % 2 == 0 ? 60.0f : -60.0f;
      for (std::size_t i = 0; i < u; ++i) rows[4 * stride + i] = i % 2 == 0 ? -43.0f : 43.0f;
      for (std::size_t i = 0; i < u; ++i) factors[i] = i % 3 == 0 ? -0.5f : 0.25f;
      kernels.exp_rows({.rows = rows.data(),
                        .stride = static_cast<std::ptrdiff_t>(stride),
                        .num_rows = kRows,
                        .num_hiddens = u,
                        .factors = factors.data(),
                        .exps = exps.data(),
                        .exps_stride = static_cast<std::ptrdiff_t>(exps_stride),
                        .row_max = max.data()});
      std::size_t wrong = 0;
      for (std::size_t m = 0; m < kRows; ++m) {
        float expected_max = 0.0f;
        for (std::size_t i = 0; i < u; ++i) {
          const float x = rows[m * stride + i], e = exps[m * exps_stride + i];
          expected_max = std::fmax(expected_max, std::abs(x));
          const double factor = factors[i], truth = factor * std::exp(2.0 * x);
          if (std::isnan(x)) {
            wrong += std::isnan(e) ? 0u : 1u;
          } else if (std::abs(x) <= kernels::kExpMax) {
            wrong += std::abs(e - truth) <= 3e-7 * std::abs(truth) + 1e-37 ? 0u : 1u;
          }
        }
        CHECK(max[m] == expected_max);
        for (std::size_t i = m * exps_stride + u; i < std::min((m + 1) * exps_stride, exps.size()); ++i) {
          wrong += exps[i] == 7.0f ? 0u : 1u;
        }
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("factored score: tiers are chosen by what each query sees of each panel, and counted") {
  for_each_target([](const Target& target) {
    const std::size_t width = panel_width(target);
    const std::vector<float> ones(40, 1.0f);
    const auto ranges = tier_ranges(ones);
    const auto counts = [&](float a, float b, const std::vector<float>& w_v, ScoreTier first = ScoreTier::kEight) {
      Case c = make_case(1, 1, w_v.size(), [&](Case& fill) { fill.queries[2] = a, fill.keys[1] = b, fill.w_v = w_v; });
      return factored_scores(target, c, -1, 0.0f, {}, 0, first).tier_counts;
    };
    using Counts = TierCounters;
    for (std::size_t tier = 0; tier < ranges.size(); ++tier) {
      Counts this_tier{}, next_tier{};
      this_tier[tier] = next_tier[tier + 1] = 1;
      CHECK(counts(0.0f, ranges[tier], ones) == this_tier);
      CHECK(counts(-ranges[tier], 0.0f, ones) == this_tier);
      CHECK(counts(0.0f, -std::nextafter(ranges[tier], kInf), ones) == next_tier);
    }
    // Weights of four groups of eight units, and of one.
    CHECK(counts(0.0f, 0.0f, std::vector<float>(32, 1.0f)) == Counts{0, 1, 0, 0, 0, 0});
    CHECK(counts(0.0f, 0.0f, std::vector<float>(8, 1.0f)) == Counts{0, 0, 0, 1, 0, 0});
    std::vector<float> uneven(64, 1e-3f);
    uneven[7] = 1.0f;
    CHECK(counts(0.0f, 0.0f, uneven) == Counts{0, 0, 0, 1, 0, 0});
    CHECK(counts(0.0f, 0.0f, ones) == Counts{1, 0, 0, 0, 0, 0});
    CHECK(counts(25.0f, -20.0f, ones) == Counts{0, 0, 0, 0, 0, 1});
    CHECK(counts(-kInf, 0.0f, ones) == Counts{0, 0, 0, 0, 0, 1});
    CHECK(counts(0.0f, kInf, ones) == Counts{0, 0, 0, 0, 0, 1});
    CHECK(counts(kNaN, 1.0f, ones) == Counts{1, 0, 0, 0, 0, 0});
    CHECK(counts(0.0f, 0.0f, {1.0f, kInf, 1.0f}) == Counts{0, 0, 0, 0, 0, 1});

    // None before the first that may be chosen.
    CHECK(counts(0.0f, 0.0f, ones, ScoreTier::kThree) == Counts{0, 0, 1, 0, 0, 0});
    CHECK(counts(0.0f, 0.0f, std::vector<float>(16, 1.0f), ScoreTier::kThree) == Counts{0, 0, 1, 0, 0, 0});
    CHECK(counts(0.0f, 0.0f, std::vector<float>(8, 1.0f), ScoreTier::kThree) == Counts{0, 0, 0, 1, 0, 0});
    CHECK(counts(kNaN, 1.0f, ones, ScoreTier::kThree) == Counts{0, 0, 1, 0, 0, 0});
    CHECK(counts(25.0f, -20.0f, ones, ScoreTier::kThree) == Counts{0, 0, 0, 0, 0, 1});

    // Key `width` (the second panel's first) is large, key width + 1 huge; seven queries, the fifth large by itself.
    Case c = make_case(7, 2 * width + 1, 40, [&](Case& fill) {
      std::fill(fill.w_v.begin(), fill.w_v.end(), 1.0f);
      fill.keys[width * 40] = 20.0f;
      fill.keys[(width + 1) * 40] = 200.0f;
      fill.queries[4 * 40] = 11.0f;
    });
    CHECK(factored_scores(target, c).tier_counts == Counts{12, 2, 0, 0, 0, 7});
    // A single query takes panels of a tier together, and not beyond what it sees.
    Case one = make_case(1, 6 * width + 1, 40, [&](Case& fill) {
      std::fill(fill.w_v.begin(), fill.w_v.end(), 1.0f);
      fill.keys[3 * width * 40] = 11.0f;
      fill.keys[5 * width * 40] = 200.0f;
    });
    CHECK(factored_scores(target, one).tier_counts == Counts{5, 1, 0, 0, 0, 1});
    const std::int32_t w = static_cast<std::int32_t>(width);
    one.lens = {2 * w + 1};
    CHECK(factored_scores(target, one).tier_counts == Counts{3, 0, 0, 0, 0, 0});
    one.lens = {5 * w};
    CHECK(factored_scores(target, one).tier_counts == Counts{4, 1, 0, 0, 0, 0});
    c.lens = {0, w, w + 1, w + 2, w, 1, -3};
    CHECK(factored_scores(target, c).tier_counts == Counts{4, 1, 0, 1, 0, 1});
    c.lens.assign(7, 1000000);
    CHECK(factored_scores(target, c).tier_counts == Counts{12, 2, 0, 0, 0, 7});
  });
}

TEST_CASE("factored score: a row's bits are its own") {
  for_each_target([](const Target& target) {
    Random random(5);
    const std::size_t width = panel_width(target);
    const std::size_t n = 3 * width + width / 2 + 1;
    for (const std::size_t u : {1u, 6u, 35u, 64u, 68u, 76u, 104u}) {
      // Queries of all tiers side by side, so that every grouping of rows happens.
      for (const float range : {2.0f, 8.0f, 16.0f, 30.0f, 60.0f}) {
        Case c = uniform_case(random, 9, n, u, 3.0f, 5.0f);
        const auto ranges = tier_ranges(c.w_v);
        for (std::size_t m = 0; m < 9; ++m) {
          if (m % 4 == 1) c.queries[m * u] = range;
          if (m == 6) c.queries[m * u] = -range;
        }
        for (const ScoreTier first_tier : {ScoreTier::kEight, ScoreTier::kThree}) {
          const std::vector<float> all = factored_scores(target, c, -1, 0.0f, {}, 0, first_tier).scores;
          for (std::size_t m = 0; m < 9; ++m) {
            const auto first = c.queries.begin() + static_cast<std::ptrdiff_t>(m * u);
            const Case row{1,      n,     u, std::vector<float>(first, first + static_cast<std::ptrdiff_t>(u)),
                           c.keys, c.w_v, {}};
            const std::vector<float> alone = factored_scores(target, row, -1, 0.0f, {}, 0, first_tier).scores;
            CHECK(same_bits(alone.data(), all.data() + m * n, n));
          }
        }
        for (int tier = 0; tier < kernels::kNumScoreTiers; ++tier) {
          if (tier < kernels::kNumScoreTiers - 1 && range + 5.0f > ranges[static_cast<std::size_t>(tier)]) continue;
          const std::vector<float> forced = factored_scores(target, c, tier).scores;
          for (std::size_t m = 0; m < 9; ++m) {
            const auto first = c.queries.begin() + static_cast<std::ptrdiff_t>(m * u);
            const Case row{1,      n,     u, std::vector<float>(first, first + static_cast<std::ptrdiff_t>(u)),
                           c.keys, c.w_v, {}};
            CHECK(same_bits(factored_scores(target, row, tier).scores.data(), forced.data() + m * n, n));
            // One vector of keys, which no tile shares with others and none pipelines (pipelined_score-inl.h).
            Case one_vector = row;
            one_vector.num_keys = kernels::additive_score_kernels(target.id()).lanes;
            one_vector.keys.resize(one_vector.num_keys * u);
            CHECK(same_bits(factored_scores(target, one_vector, tier).scores.data(), forced.data() + m * n,
                            one_vector.num_keys));
          }
        }
      }
    }
  });
}

TEST_CASE("factored score: rows are prefetched meanwhile, as many lines as are asked for, and change no bit") {
  using kernels::PrefetchRows;
  for_each_target([](const Target& target) {
    Random random(7);
    const std::size_t lanes = kernels::additive_score_kernels(target.id()).lanes;
    for (const std::size_t u : {8u, 13u, 64u}) {
      for (const std::size_t vectors : {1u, 3u, 7u}) {
        const Case c = uniform_case(random, 8, vectors * lanes, u, 1.0f, 1.0f);
        const std::size_t groups = 2 * vectors * ((u + 7) / 8);
        for (int tier = -1; tier < static_cast<int>(kernels::ScoreTier::kRational); ++tier) {
          const std::vector<float> expected = factored_scores(target, c, tier).scores;
          for (const std::size_t lines : {std::size_t{0}, groups, 3 * groups - 1}) {
            PrefetchRows rows[] = {{}, {.next = c.keys.data(), .stride = -5, .num_rows = 1000, .size = 1}};
            CHECK(same_bits(factored_scores(target, c, tier, 0.0f, rows, lines).scores, expected));
            CHECK(rows[1].num_rows == 1000 - (lines + groups - 1) / groups * groups);
          }
          // Row after row, each to its last line; single queries leave them alone.
          PrefetchRows two[] = {{.next = c.keys.data(), .stride = 48, .num_rows = 1, .size = 33},
                                {.next = c.keys.data(), .stride = 9, .num_rows = 2, .size = 16}};
          CHECK(same_bits(factored_scores(target, c, tier, 0.0f, two, 5 * groups).scores, expected));
          CHECK(two[0].num_rows + two[1].num_rows == 0);
          const Case one{1,      c.num_keys, u, {c.queries.begin(), c.queries.begin() + static_cast<std::ptrdiff_t>(u)},
                         c.keys, c.w_v,      {}};
          PrefetchRows left{.next = c.keys.data(), .stride = 1, .num_rows = 9, .size = 1};
          factored_scores(target, one, tier, 0.0f, {&left, 1}, 9);
          CHECK(left.num_rows == 9);
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
          // The query by itself.
          const auto query = c.queries.begin() + static_cast<std::ptrdiff_t>(m * u);
          const Case one{1, n, u, {query, query + static_cast<std::ptrdiff_t>(u)}, dirty.keys, c.w_v, {lens[m]}};
          CHECK(same_bits(factored_scores(target, one, -1, garbage).scores.data(), clean.data() + m * n, len));
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
        for (int tier = -1; tier < kernels::kNumScoreTiers; ++tier) {
          Case c = make_case(kQueries, kKeys, hiddens, [&](Case& fill) {
            std::fill(fill.queries.begin(), fill.queries.end(),
                      tier == static_cast<int>(ScoreTier::kOne) ? 20.0f : 0.5f);
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
