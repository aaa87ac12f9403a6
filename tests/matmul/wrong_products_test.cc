// A oneDNN that packs weights wrongly, as some versions do on some CPUs: it is found out while a layer is built.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/base/cpus.h"
#include "engine/matmul/is_product.h"
#include "engine/matmul/linear.h"
#include "tests/matmul/linear_cases.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/spoiled_onednn.h"

namespace attend::tests {

using matmul::is_product;

TEST_CASE("is_product: one wrong element of one sum is enough, and what is not finite may be anything") {
  Random random(21);
  for (const MapSize& size : kMapSizes) {
    Tensor W = random.normal({size.out, size.in}), b = random.normal({size.out});
    const std::vector<float> x = random.uniform({size.in}, -1, 1).data;
    const auto multiply = [&](const TensorView<const float>& weights) {
      std::vector<float> y;
      for (std::int64_t o = 0; o < size.out; ++o) {
        float sum = b.data[static_cast<std::size_t>(o)];
        for (std::int64_t i = 0; i < size.in; ++i) sum += *weights.at(o, i) * x[static_cast<std::size_t>(i)];
        y.push_back(sum);
      }
      return y;
    };
    const std::vector<float> right = multiply(W.view());
    INFO(size.out, " x ", size.in);
    CHECK(is_product(W.view(), b.view(), x.data(), right.data()));
    for (const std::int64_t o : {std::int64_t{0}, size.out - 1}) {
      std::vector<float> wrong = right;
      wrong[static_cast<std::size_t>(o)] += 0.1f;
      CHECK(!is_product(W.view(), b.view(), x.data(), wrong.data()));
      wrong[static_cast<std::size_t>(o)] = std::numeric_limits<float>::quiet_NaN();
      CHECK(!is_product(W.view(), b.view(), x.data(), wrong.data()));
    }
    Tensor others = W;
    others.data.back() += 10.0f;
    CHECK(!is_product(others.view(), b.view(), x.data(), right.data()));
    CHECK(!is_product(W.view(), {}, x.data(), right.data()));
    for (const float unusual : {std::numeric_limits<float>::infinity(), 3e38f}) {
      W.data.back() = unusual;
      b.data.back() = unusual;
      CHECK(is_product(W.view(), b.view(), x.data(), multiply(W.view()).data()));
    }
  }
}

#ifdef ATTEND_WITH_ONEDNN
TEST_CASE("linear: where oneDNN gives wrong results, our own kernel multiplies, and who asks for oneDNN is told") {
  Random random(22);
  const Tensor W = random.normal({32, 48}), bias = random.normal({32}), x = random.normal({7, 48});
  const Linear expected(W.view(), bias.view(), "W", Implementation::kLinearRows);
  const std::size_t num_maps = all_linears(W.view(), bias.view()).size();
  const SpoiledOneDnn spoiled;
  const Linear map(W.view(), bias.view(), "W");
  INFO(map.implementation());
  CHECK(map.implementation().find("own kernel") == 0);
  CHECK(map.runs_on_plan_target());
  CHECK(same_bits(row_by_row(map, x.data), row_by_row(expected, x.data)));
  if (num_maps == 3) return;  // oneDNN has but its reference here
#if defined(__x86_64__)
  const bool would_be_onednn = this_cpu().has_avx512 && map.implementation().find("bfloat16") == std::string::npos;
  CHECK((map.implementation().find(" gives wrong results)") != std::string::npos) == would_be_onednn);
#endif
  const std::string message = error_message([&] { Linear(W.view(), bias.view(), "W_q", Implementation::kOneDnn); });
  CHECK(missing_parts(message, {"W_q", "held to oneDNN ", ", which gives wrong results"}) == "");
}
#endif

}  // namespace attend::tests
