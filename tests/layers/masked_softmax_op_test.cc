// masked_softmax at the public door.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/layouts.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
using Lengths = TensorView<const std::int32_t>;

std::vector<float> softmax(const Tensor& scores, const Lengths& lens, const MaskedSoftmaxOptions& options) {
  Tensor weights{scores.sizes, std::vector<float>(scores.data.size(), -1.0f)};
  masked_softmax(scores.view(), lens, weights.view(), options);
  return weights.data;
}

// Within 2e-7 of the truth, exactly 0 beyond the lengths, rows sum to 1 within 1e-6 or are 0.
void check_softmax(const Tensor& scores, const Lengths& lens) {
  const std::vector<double> truth = reference::masked_softmax(scores.view(), lens);
  for_each_target([&](const Target& target) {
    const std::vector<float> weights = softmax(scores, lens, {.target = target});
    CHECK(max_abs_error(weights, truth) <= 2e-7);
    const std::size_t num_keys = static_cast<std::size_t>(scores.sizes.back());
    double worst = 0;
    for (std::size_t row = 0; num_keys != 0 && row < weights.size() / num_keys; ++row) {
      double sum = 0, true_sum = 0;
      for (std::size_t n = row * num_keys; n < (row + 1) * num_keys; ++n) {
        sum += static_cast<double>(weights[n]);
        true_sum += truth[n];
        if (truth[n] == 0 && scores.data[n] == -kInf) CHECK(weights[n] == 0);
      }
      if (!std::isnan(true_sum)) worst = worse(worst, std::abs(sum - std::round(true_sum)));
    }
    CHECK(worst <= 1e-6);
  });
}

}  // namespace

TEST_CASE("masked_softmax: within 2e-7 for every row length") {
  for (const std::int64_t num_keys :
       {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 600, 10000}) {
    CAPTURE(num_keys);
    Random random(100);
    const Tensor scores = random.normal({2, 3, num_keys}, 3);
    const LengthsTensor per_batch = random.lengths({2}, 0, num_keys);
    const LengthsTensor per_query = random.lengths({2, 3}, 0, num_keys);
    check_softmax(scores, {});
    check_softmax(scores, per_batch.view());
    check_softmax(scores, per_query.view());
  }
}

TEST_CASE("masked_softmax: scores of heads, (B, H, M, N)") {
  Random random(101);
  const Tensor scores = random.normal({2, 3, 4, 19}, 3);
  check_softmax(scores, {});
  check_softmax(scores, random.lengths({2}, 0, 19).view());
  check_softmax(scores, random.lengths({2, 4}, 0, 19).view());
}

TEST_CASE("masked_softmax: scores of every size, given exactly") {
  Random random(102);
  for (const float spread : {1e-3f, 10.0f, 90.0f, 1e3f, 1e5f, 1e38f}) {
    CAPTURE(spread);
    check_softmax(random.uniform({2, 3, 70}, -spread, spread), {});
    check_softmax(random.spread_out({2, 3, 70}, spread), {});
  }
  Tensor equal{{1, 2, 100000}, std::vector<float>(200000, 3e38f)};
  check_softmax(equal, {});
  // One large weight and a hundred thousand small ones: the sum must not lose them.
  for (std::size_t i = 0; i < equal.data.size(); ++i) equal.data[i] = i % 100000 == 0 ? 0.0f : -12.0f;
  check_softmax(equal, {});
  // The opposite ends of float.
  check_softmax({{1, 2, 3}, {3.4e38f, -3.4e38f, 0, -3.4e38f, -3.4e38f, 3.4e38f}}, {});
  // Weights that are subnormal or underflow.
  check_softmax({{1, 1, 6}, {0, -87, -88, -95, -103, -104}}, {});
}

TEST_CASE("masked_softmax: NaN, infinities, empty rows") {
  for (const std::int64_t num_keys : {3, 8, 33}) {
    const std::size_t n = static_cast<std::size_t>(num_keys);
    for (std::size_t where = 0; where < n; ++where) {
      Tensor scores = Random(103).normal({1, 6, num_keys});
      scores.data[where] = kNaN;
      scores.data[n + where] = -kInf;
      scores.data[2 * n + where] = kInf;
      for (std::size_t i = 0; i < n; ++i) scores.data[3 * n + i] = -kInf;
      scores.data[4 * n + where] = -kNaN;
      check_softmax(scores, {});
      // Shorter rows do not see it.
      const std::int32_t len = static_cast<std::int32_t>(where);
      check_softmax(scores, Lengths(&len, {1}));
    }
  }
}

TEST_CASE("masked_softmax: what lies beyond the length is not read") {
  for (const std::int64_t len : {0, 1, 4, 7, 16, 31}) {
    const Tensor scores = Random(104).normal({1, 1, 40});
    GuardedArray<float> guarded(static_cast<std::size_t>(len));
    std::copy_n(scores.data.data(), len, guarded.data());
    const std::int32_t lens[] = {static_cast<std::int32_t>(len)};
    for_each_target([&](const Target& target) {
      std::vector<float> weights(40, -1.0f);
      masked_softmax(TensorView<const float>(guarded.data(), {1, 1, 40}), Lengths(lens, {1}),
                     TensorView<float>(weights.data(), {1, 1, 40}), {.target = target});
      CHECK(same_bits(weights, softmax(scores, Lengths(lens, {1}), {.target = target})));
    });
  }
}

TEST_CASE("masked_softmax: any executor and any strides give the same bits") {
  Random random(105);
  const Tensor scores = random.normal({3, 50, 65}, 4);
  const LengthsTensor lens = random.lengths({3, 50}, 0, 65);
  EagerPool pool(3);
  ReverseExecutor reverse(4);
  for_each_target([&](const Target& target) {
    const std::vector<float> expected = softmax(scores, lens.view(), {.target = target});
    for (Executor* executor : {static_cast<Executor*>(&pool), static_cast<Executor*>(&reverse)}) {
      CHECK(same_bits(expected, softmax(scores, lens.view(), {.target = target, .executor = executor})));
    }
    for (const Layout layout : kAllLayouts) {
      const Laid input = lay_out(scores.view(), layout);
      Laid output = lay_out(std::span<const std::int64_t>(scores.sizes), layout);
      masked_softmax(input.view(), lens.view(), output.view(), {.target = target});
      CHECK(same_bits(expected, dense(output.view())));
    }
  });
}

TEST_CASE("masked_softmax: a row's bits do not depend on where rows of other heads and entries lie") {
  Random random(106);
  // Few rows a head, many heads; single rows; more rows than an item takes.
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
           {40, 3, 1, 33}, {3, 2, 5, 70}, {1, 70, 1, 20}, {70, 1, 1, 20}, {2, 2, 70, 9}}) {
    const Tensor scores = random.normal(sizes, 4);
    const LengthsTensor per_entry = random.lengths({sizes[0]}, 0, sizes[3]);
    const LengthsTensor per_query = random.lengths({sizes[0], sizes[2]}, 0, sizes[3]);
    for (const LengthsTensor* lens : {&per_entry, &per_query}) {
      check_softmax(scores, lens->view());
      for_each_target([&](const Target& target) {
        const std::vector<float> expected = softmax(scores, lens->view(), {.target = target});
        for (const Layout layout : kAllLayouts) {
          const Laid input = lay_out(scores.view(), layout);
          Laid output = lay_out(std::span<const std::int64_t>(scores.sizes), layout);
          masked_softmax(input.view(), lens->view(), output.view(), {.target = target});
          CHECK(same_bits(expected, dense(output.view())));
        }
      });
    }
  }
}

TEST_CASE("masked_softmax: mistakes are named and change nothing") {
  const std::vector<float> scores(24, 1.0f);
  std::vector<float> weights(24, 5.0f);
  const std::int32_t good[] = {1, 2, 3, 4, 1, 2}, bad[] = {1, 5}, negative[] = {-1, 1};
  const TensorView<const float> in(scores.data(), {2, 3, 4});
  const TensorView<float> out(weights.data(), {2, 3, 4});
  struct {
    TensorView<const float> input;
    Lengths lens;
    TensorView<float> output;
    std::vector<std::string> parts;
  } const kWrong[] = {
      {{}, {}, out, {"input is not given", "(B, M, N) or (B, H, M, N)"}},
      {{scores.data(), {6, 4}}, {}, out, {"input", "(6, 4)", "expected (B, M, N) or (B, H, M, N)"}},
      {in, {}, {weights.data(), {6, 4}}, {"output", "(6, 4)", "(2, 3, 4)"}},
      {in, {}, {}, {"output"}},
      {in, {}, {weights.data(), {2, 4, 3}}, {"output", "(2, 4, 3)", "(2, 3, 4)"}},
      {{scores.data(), {2, 3, 4}, {12, 1, 3}}, {}, out, {"input", "(12, 1, 3)", "1"}},
      {in, {}, {weights.data(), {2, 3, 4}, {12, 1, 3}}, {"output", "(12, 1, 3)", "1"}},
      {in, {}, {weights.data(), {2, 3, 4}, {0, 4, 1}}, {"output", "(0, 4, 1)", "zero"}},
      {in, Lengths(bad, {2}), out, {"valid_lens", "5", "4, the length of a row"}},
      {in, Lengths(negative, {2}), out, {"valid_lens", "-1", "4"}},
      {in, Lengths(good, {3}), out, {"valid_lens", "(3)", "(2)"}},
      {in, Lengths(good, {2, 2}), out, {"valid_lens", "(2, 2)", "(2, 3)"}},
      {in, Lengths(good, {2, 3, 1}), out, {"valid_lens", "(2, 3, 1)"}},
  };
  for (const auto& wrong : kWrong) {
    const std::string message = error_message([&] { masked_softmax(wrong.input, wrong.lens, wrong.output); });
    CHECK(missing_parts(message, wrong.parts) == "");
  }
  CHECK(weights == std::vector<float>(24, 5.0f));
}

}  // namespace attend::tests
