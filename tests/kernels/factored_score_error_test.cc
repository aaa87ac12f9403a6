// Errors of the factored score on every target against double.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/additive_score.h"
#include "tests/kernels/factored_cases.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr double kBound = 4e-7;  // of sum|w_v|

// A case in double, and sum|w_v|.
struct Truth {
  std::vector<double> scores;
  double magnitude = 0.0;

  explicit Truth(const Case& c) {
    for (std::size_t m = 0; m < c.num_queries; ++m) {
      for (std::size_t j = 0; j < c.num_keys; ++j) {
        scores.push_back(kernels::reference::additive_score(&c.queries[m * c.num_hiddens], &c.keys[j * c.num_hiddens],
                                                            c.w_v.data(), c.num_hiddens));
      }
    }
    for (const float w : c.w_v) magnitude += std::abs(static_cast<double>(w));
  }
};

// Collects the largest error relative to sum|w_v| of one target.
struct Worst {
  double error = 0.0;
  std::string name;

  void measure(const Target& target, const std::string& case_name, const Case& c, int forced_tier = -1) {
    measure(target, case_name, c, Truth(c), forced_tier);
  }
  void measure(const Target& target, const std::string& case_name, const Case& c, const Truth& truth,
               int forced_tier = -1) {
    const std::vector<float> scores = factored_scores(target, c, forced_tier).scores;
    REQUIRE(scores.size() == truth.scores.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double difference = std::abs(scores[i] - truth.scores[i]);
      const double relative = truth.magnitude == 0.0 ? (difference == 0.0 ? 0.0 : 1.0) : difference / truth.magnitude;
      worst = worse(worst, relative);
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

TEST_CASE("factored score: queries that stand elsewhere, some where sums are needed") {
  for_each_target([](const Target& target) {
    Random random(9);
    Worst worst;
    for (const float range : {2.0f, 12.0f, 90.0f}) {  // the last goes by sums, which read the queries themselves
      Case c = uniform_case(random, 6, panel_width(target) + 1, 20, range, 3.0f);
      c.numbers = {7, 0, 5, 5, 2, 9};
      std::copy_n(c.queries.begin() + 2 * 20, 20, c.queries.begin() + 3 * 20);  // one row twice
      worst.measure(target, "numbers", c);
      worst.measure(target, "numbers, by sums", c, static_cast<int>(kernels::ScoreTier::kRational));
    }
    worst.report(target);
  });
}

constexpr std::size_t kHiddens[] = {1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 256, 1000, 4096};

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
    // By range, and in every tier that holds the range.
    const auto measure = [&](const std::string& name, const Case& c, float a, float b) {
      const Truth truth(c);  // once for all tiers: it takes most of the time
      worst[kernels::kNumScoreTiers].measure(target, name, c, truth);
      const auto ranges = tier_ranges(c.w_v);
      for (int tier = 0; tier < kernels::kNumScoreTiers; ++tier) {
        const bool rational = tier + 1 == kernels::kNumScoreTiers;
        if (rational || a + b <= ranges[static_cast<std::size_t>(tier)])
          worst[tier].measure(target, name, c, truth, tier);
      }
    };
    for (const std::size_t u : kHiddens) {
      const std::size_t m = u > 500 ? 1 : 5, n = u > 500 ? 17 : 40;
      for (const float a : {0.01f, 1.0f,  4.8f,  4.9f,  5.0f,  5.1f,  7.4f,  7.6f,  8.9f,  9.0f,  9.5f,  10.0f, 10.1f,
                            11.0f, 12.3f, 12.6f, 20.0f, 21.5f, 22.5f, 40.0f, 42.0f, 43.0f, 43.1f, 44.0f, 90.0f, 1e3f}) {
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
    for (int tier = 0; tier <= kernels::kNumScoreTiers; ++tier) {
      INFO("tier ", tier, " (", kernels::kNumScoreTiers, ": by range)");
      worst[tier].report(target);
    }
  });
}

// Roundings that repeat in every group of eight units: all terms equal, or eight of them over and over; weights are
// equal, near each other, or of both signs with sums to match.
TEST_CASE("factored score: repeated terms, whose roundings add up") {
  for_each_target([](const Target& target) {
    Random random(3);
    for (int tier = 0; tier < static_cast<int>(kernels::ScoreTier::kRational); ++tier) {
      Worst worst;
      for (std::size_t round = 0; round < 140; ++round) {
        const std::size_t u = std::array<std::size_t, 7>{8, 7, 32, 40, 250, 256, 1000}[round % 7];
        const std::size_t n = u > 500 ? 100 : 500;
        const float spread = std::array<float, 5>{0.0f, 0.0f, 1e-3f, 0.3f, 1.0f}[round % 5];
        const float w = random.uniform(0.5f, 1.0f), q = round % 2 == 0 ? 0.0f : random.uniform(-1.0f, 1.0f);
        const float range = tier == 0 ? 8.5f : 11.0f;
        const bool mixed_signs = round % 8 == 7;
        const Case c = make_case(1, n, u, [&](Case& fill) {
          std::fill(fill.queries.begin(), fill.queries.end(), q);
          for (std::size_t i = 0; i < u; ++i) {
            fill.w_v[i] = i < 8 ? w * (1.0f + spread * random.uniform(-0.5f, 0.5f)) : fill.w_v[i - 8];
            if (i < 8 && mixed_signs && random.unit() < 0.5) fill.w_v[i] = -fill.w_v[i];
          }
          for (std::size_t j = 0; j < n; ++j) {
            const float x = random.uniform(-range, range) * (j % 2 == 0 ? 1.0f : 0.3f);
            for (std::size_t i = 0; i < u; ++i) {
              float& key = fill.keys[j * u + i];
              key = i < 8 ? std::copysign(1.0f, fill.w_v[i]) * (x + spread * random.uniform(-0.5f, 0.5f))
                          : fill.keys[j * u + i - 8];
            }
          }
        });
        if (tier_ranges(c.w_v)[static_cast<std::size_t>(tier)] > 0.0f) worst.measure(target, "repeated terms", c, tier);
      }
      INFO("tier ", tier);
      worst.report(target);
    }
  });
}

// Terms that are equal within a group of eight, each group's chosen for the largest error. K cannot tell these apart.
TEST_CASE("factored score: pre-activations that are chosen group by group") {
  constexpr std::size_t kUnits = 40, kTrials = 1500;
  for_each_target([&](const Target& target) {
    for (const int tier : {0, 1, 2}) {
      Random random(5);
      std::vector<float> chosen(kUnits, -5.0f);
      double worst = 0;
      for (std::size_t first = 0; first < 2 * kUnits; first += 8) {
        const std::size_t group = first % kUnits;
        const Case c = make_case(1, kTrials, kUnits, [&](Case& fill) {
          std::fill(fill.w_v.begin(), fill.w_v.end(), 1.0f);
          for (std::size_t j = 0; j < kTrials; ++j) {
            float* key = &fill.keys[j * kUnits];
            std::copy(chosen.begin(), chosen.end(), key);
            if (j > 0) std::fill_n(key + group, 8, random.uniform(-8.9f, 0.0f));
          }
        });
        const Truth truth(c);
        const std::vector<float> scores = factored_scores(target, c, tier).scores;
        std::size_t best = 0;
        double error = 0;
        for (std::size_t j = 0; j < kTrials; ++j) {
          const double relative = (static_cast<double>(scores[j]) - truth.scores[j]) / truth.magnitude;
          worst = worse(worst, std::abs(relative));
          if (relative > error) error = relative, best = j;
        }
        std::copy_n(c.keys.begin() + static_cast<std::ptrdiff_t>(best * kUnits), kUnits, chosen.begin());
      }
      CAPTURE(tier);
      MESSAGE(target.name(), ", tier ", tier, ": wrong by at most ", worst, " sum|w_v|");
      const bool by_three = tier == static_cast<int>(kernels::ScoreTier::kThree);
      CHECK(worst <= (by_three ? 4e-7 : 5.5e-7));
      CHECK(worst > (by_three ? 2.5e-7 : 3e-7));  // or the search has lost its way
    }
  });
}

TEST_CASE("factored score: weights of every size") {
  for_each_target([](const Target& target) {
    Random random(4);
    Worst worst;
    for (const float range : {2.0f, 9.0f, 30.0f, 100.0f}) {
      for (const std::size_t u : {1u, 5u, 64u, 257u}) {
        Case c = uniform_case(random, 5, 70, u, range, range);
        for (const float size : {0.0f, 1e30f, 1e-30f, 1e-36f, 1.0f, 3e35f}) {
          for (float& w : c.w_v) w = size * random.uniform(-1.0f, 1.0f);
          worst.measure(target, "weights " + std::to_string(size), c);
        }
        for (std::size_t i = 0; i < u; ++i) {
          c.w_v[i] = (i % 2 == 0 ? 1.0f : -1.0f) * (i % 3 == 0 ? 1e30f : i % 3 == 1 ? 1e-30f : 0.0f);
        }
        worst.measure(target, "mixed weights", c);
        // Some of a group's weights, or all but some, are nothing or next to it.
        for (const float small : {0.0f, -0.0f, 1e-38f, 1e-12f, 1e-4f}) {
          for (const std::size_t large : {1u, 4u, 7u}) {
            for (std::size_t i = 0; i < u; ++i) c.w_v[i] = i % 8 < large ? random.uniform(-1.0f, 1.0f) : small;
            worst.measure(target, "mostly " + std::to_string(small), c);
          }
          for (std::size_t i = 0; i < u; ++i) c.w_v[i] = i == u / 2 ? 1.0f : small;
          worst.measure(target, "all but one " + std::to_string(small), c);
          for (std::size_t i = 0; i < u; ++i) c.w_v[i] = i < 4 ? 1.0f : small;
          worst.measure(target, "all but four " + std::to_string(small), c);
        }
        std::fill(c.w_v.begin(), c.w_v.end(), 0.0f);
        for (const float score : factored_scores(target, c).scores) CHECK(score == 0.0f);
      }
    }
    worst.report(target);
  });
}

}  // namespace
}  // namespace attend::tests
