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

}  // namespace attend::tests
