// The error bound over very many keys: where sums of one sign would drift if they were added one after another.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/random.h"
#include "tests/support/run.h"

namespace attend::tests {

TEST_CASE("long keys: 65536 keys of equal weight keep the contract's bound on every path") {
  constexpr std::int64_t kKeys = 65536, kValues = 64;  // whole panels
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> one_sign(0.5f, 1.0f);
  const std::vector<float> queries(3 * 2, 0.0f), keys(kKeys * 2, 1.0f);
  std::vector<float> values(kKeys * kValues);
  for (float& v : values) v = one_sign(generator);
  // Equal scores: the result is the mean of the valid values.
  const std::vector<std::int32_t> lens = {65536, 8192, 40001};
  std::vector<double> truth(3 * kValues, 0.0);
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t j = 0; j < static_cast<std::size_t>(lens[row]); ++j) {
      for (std::size_t n = 0; n < kValues; ++n)
        truth[row * kValues + n] += static_cast<double>(values[j * kValues + n]);
    }
    for (std::size_t n = 0; n < kValues; ++n) truth[row * kValues + n] /= lens[row];
  }
  for_each_target([&](const Target& target) {
    for (const char* path : {"dot/fused", "dot/materialised", "dot/decode", "dot/lanes"}) {
      CAPTURE(path);
      PlanOptions options;
      options.target = target;
      options.path = path;
      const Plan plan = DotAttention().plan(
          {.batch = 1, .num_queries = 3, .num_keys = kKeys, .query_size = 2, .value_size = kValues}, options);
      Workspace workspace(plan);
      poison(workspace);
      std::vector<float> output(3 * kValues);
      plan.run({.queries = {queries.data(), {1, 3, 2}},
                .keys = {keys.data(), {1, kKeys, 2}},
                .values = {values.data(), {1, kKeys, kValues}},
                .valid_lens = {lens.data(), {1, 3}}},
               {.output = {output.data(), {1, 3, kValues}}}, workspace);
      double worst = 0;
      for (std::size_t i = 0; i < output.size(); ++i)
        worst = worse(worst, std::fabs(static_cast<double>(output[i]) - truth[i]));
      MESSAGE(target.name(), " ", std::string(path), ": largest error ", worst, " of values up to 1");
      CHECK(worst <= 2e-7 * 4);
    }
  });
}

// Enough queries that keys pass in tiles, neither in chunks nor in lanes.
TEST_CASE("long keys: 65536 keys of equal weight, and 40 queries") {
  constexpr std::int64_t kQueries = 40, kKeys = 65536, kValues = 8;
  const std::vector<float> queries(kQueries * 2, 0.0f), keys(kKeys * 2, 1.0f);
  const Tensor values = Random(7).uniform({1, kKeys, kValues}, 0.5f, 1.0f);
  std::vector<double> truth(kValues);
  for (std::size_t i = 0; i < values.data.size(); ++i)
    truth[i % kValues] += static_cast<double>(values.data[i]) / kKeys;
  for_each_target([&](const Target& target) {
    for (const char* path : {"dot/fused", "dot/materialised"}) {
      for (const Parts parts : {Parts::kNever, Parts::kAlways}) {
        CAPTURE(path);
        CAPTURE(static_cast<int>(parts));
        const Plan plan =
            DotAttention().plan({.num_queries = kQueries, .num_keys = kKeys, .query_size = 2, .value_size = kValues},
                                {.target = target, .path = path, .parts = parts});
        const RunResult result = run_plan(plan, {.queries = {queries.data(), {1, kQueries, 2}},
                                                 .keys = {keys.data(), {1, kKeys, 2}},
                                                 .values = values.view()});
        double worst = 0;
        for (std::size_t i = 0; i < result.output.size(); ++i) {
          worst = worse(worst, std::abs(static_cast<double>(result.output[i]) - truth[i % kValues]));
        }
        CHECK(worst <= 2e-7 * 4);
      }
    }
  });
}

// Sums by parts round more often: weights and values that differ, of one sign.
TEST_CASE("long keys: products by parts keep the bound") {
  for (const std::int64_t num_keys : {4096, 10000}) {
    LayerCase c({.layer = Layer::kDot,
                 .batch = 1,
                 .num_queries = 48,
                 .num_keys = num_keys,
                 .size = 64,
                 .value_size = 64,
                 .lens = Lens::kNone,
                 .seed = 8});
    for (float& x : c.queries.data) x *= 0.05f;
    for (float& x : c.keys.data) x *= 0.05f;
    c.values = Random(9).uniform(c.values.sizes, 0.0f, 1.0f);
    const reference::Result truth = c.truth();
    const Bound bound = c.bound(truth);
    for_each_target([&](const Target& target) {
      for (const char* path : {"dot/fused", "dot/materialised"}) {
        CAPTURE(num_keys);
        CAPTURE(path);
        const Plan plan = c.attention.plan(c.shape, {.target = target, .path = path, .parts = Parts::kAlways});
        const RunResult result = run_plan(plan, c.inputs());
        check_within(result.output, result.attention_weights, truth, bound);
      }
    });
  }
}

}  // namespace attend::tests
