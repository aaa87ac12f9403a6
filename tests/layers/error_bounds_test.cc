// Contract 6 where it is worst: sums of terms that are all alike, so that their roundings are too. Such inputs may be
// wrong by twelve times the bound of others (engine/README.md), and no more.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr double kAlike = 12;
constexpr const char* kPaths[] = {"dot/decode", "dot/lanes", "dot/fused", "dot/materialised"};

struct Worst {
  double error = 0;  // in bounds
  std::string of;
};

// One query; rows of keys and values all alike, but for what `keys` says.
void measure(const Target& target, const std::vector<float>& query, const std::vector<float>& keys,
             const std::vector<float>& values, Worst& worst) {
  const auto size = static_cast<std::int64_t>(query.size());
  const auto num_keys = static_cast<std::int64_t>(keys.size()) / size;
  const auto value_size = static_cast<std::int64_t>(values.size()) / num_keys;
  const Inputs in{.queries = {query.data(), {1, 1, size}},
                  .keys = {keys.data(), {1, num_keys, size}},
                  .values = {values.data(), {1, num_keys, value_size}},
                  .valid_lens = {}};
  const reference::Result truth = reference::dot({}, in, {});
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  const double bound = 2e-7 * (4 + truth.max_score_terms) * largest;
  for (const char* path : kPaths) {
    const Plan plan =
        DotAttention().plan({.num_queries = 1, .num_keys = num_keys, .query_size = size, .value_size = value_size},
                            {.target = target, .path = path});
    const RunResult result = run_plan(plan, in, false);
    for (std::size_t n = 0; n < result.output.size(); ++n) {
      const double error = std::abs(static_cast<double>(result.output[n]) - truth.output[n]) / bound;
      if (!(error <= worst.error)) worst = {error, path};
    }
  }
}

}  // namespace

TEST_CASE("contract 6: scores whose terms cancel") {
  // q = (x, x), k = (y, -y): all scores are 0, of terms that add up to hundreds.
  for_each_target([](const Target& target) {
    for (const std::size_t half : {8u, 32u, 64u, 256u}) {
      for (const float amplitude : {1.0f, 3.0f, 30.0f}) {
        Random random(half);
        std::vector<float> query(2 * half), keys(2 * 2 * half);
        for (std::size_t i = 0; i < half; ++i) {
          query[i] = query[half + i] = random.uniform(-amplitude, amplitude);
          for (std::size_t j = 0; j < 2; ++j) {
            const float y = random.uniform(-amplitude, amplitude);
            keys[j * 2 * half + i] = y;
            keys[j * 2 * half + half + i] = -y;
          }
        }
        Worst worst;
        measure(target, query, keys, {1.0f, -1.0f}, worst);
        CAPTURE(half);
        CAPTURE(amplitude);
        CAPTURE(worst.of);
        CHECK(worst.error <= 1);
      }
    }
  });
}

TEST_CASE("contract 6: constant vectors") {
  for_each_target([](const Target& target) {
    for (const std::size_t size : {16u, 64u, 128u, 512u}) {
      Worst worst;
      Random random(91);
      for (int round = 0; round < 100; ++round) {
        const float scale = 16 / std::sqrt(static_cast<float>(size)), k = random.uniform(0.5f, 1.5f) * scale;
        std::vector<float> keys(2 * size, k);
        std::fill_n(keys.begin() + static_cast<std::ptrdiff_t>(size), size, k * random.uniform(0.975f, 1.025f));
        measure(target, std::vector<float>(size, random.uniform(0.5f, 1.5f)), keys, {1, -1}, worst);
      }
      if (size == 128) {  // found by a search
        std::vector<float> keys(2 * size, 1.18645298f);
        std::fill_n(keys.begin() + static_cast<std::ptrdiff_t>(size), size, 1.17425168f);
        measure(target, std::vector<float>(size, 1.39872193f), keys, {1, -1}, worst);
      }
      CAPTURE(size);
      CAPTURE(worst.of);
      CHECK(worst.error <= kAlike);
    }
  });
}

TEST_CASE("contract 6: equal scores and equal values") {
  for_each_target([](const Target& target) {
    Worst worst;
    Random random(92);
    for (const std::size_t num_keys : {100u, 128u, 1000u, 8192u}) {
      for (int round = 0; round < (num_keys > 1000 ? 5 : 20); ++round) {
        std::vector<float> row(64), values;
        for (float& value : row) value = random.uniform(0.5f, 1.0f);
        if (round == 0) row[0] = 0.999748349f, row[1] = 0.992267609f;  // found by a search, as the scores below
        for (std::size_t n = 0; n < num_keys; ++n) values.insert(values.end(), row.begin(), row.end());
        const float score = round == 0 ? -0.0502781868f : round == 1 ? -0.0322564542f : random.uniform(-0.35f, 0.35f);
        measure(target, {1}, std::vector<float>(num_keys, score), values, worst);
      }
    }
    CAPTURE(worst.of);
    CHECK(worst.error <= kAlike);
  });
}

}  // namespace attend::tests
