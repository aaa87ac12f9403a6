// The examples that Dive into Deep Learning prints, sections 11.2 to 11.5.
#include <cmath>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

// arange(40).reshape(1, 10, 4).repeat(2, 1, 1)
Tensor textbook_values() {
  Tensor values{{2, 10, 4}, std::vector<float>(80)};
  for (std::size_t i = 0; i < 80; ++i) values.data[i] = static_cast<float>(i % 40);
  return values;
}

// Identical keys weigh alike: the mean of the first 2 and of the first 6 rows.
void check_identical_keys(const Attention& layer, std::int64_t query_size, std::int64_t key_size) {
  const Tensor queries = Random(31).normal({2, 1, query_size});
  const Tensor keys{{2, 10, key_size}, std::vector<float>(static_cast<std::size_t>(20 * key_size), 1.0f)};
  const Tensor values = textbook_values();
  const std::int32_t lens[] = {2, 6};
  const Inputs in{.queries = queries.view(),
                  .keys = keys.view(),
                  .values = values.view(),
                  .valid_lens = TensorView<const std::int32_t>(lens, {2})};
  const Shape shape{
      .batch = 2, .num_queries = 1, .num_keys = 10, .query_size = query_size, .key_size = key_size, .value_size = 4};
  for_each_plan(layer, shape, {}, [&](const Plan& plan, bool with_weights) {
    const RunResult result = run_plan(plan, in, with_weights);
    CHECK(max_abs_error(result.output, std::vector<double>{2, 3, 4, 5, 10, 11, 12, 13}) <= 2e-7 * 4 * 23);
    for (std::size_t i = 0; i < result.attention_weights.size(); ++i) {
      const std::size_t len = i < 10 ? 2 : 6;
      const double expected = i % 10 < len ? 1.0 / static_cast<double>(len) : 0.0;
      CHECK(std::abs(static_cast<double>(result.attention_weights[i]) - expected) <= (expected == 0 ? 0 : 2e-7));
    }
  });
}

}  // namespace

TEST_CASE("textbook: additive attention over identical keys with lengths 2 and 6") {
  Random random(32);
  const Tensor W_q = random.normal({8, 20}, 0.3f);
  const Tensor W_k = random.normal({8, 2}, 0.3f);
  const Tensor w_v = random.normal({1, 8}, 0.3f);
  check_identical_keys(AdditiveAttention(AdditiveParameters{.W_q = W_q.view(), .W_k = W_k.view(), .w_v = w_v.view()}),
                       20, 2);
}

TEST_CASE("textbook: dot-product attention over identical keys with lengths 2 and 6") {
  check_identical_keys(DotAttention(), 2, 2);
}

TEST_CASE("textbook: bilinear and gaussian attention over identical keys, too") {
  const Tensor W = Random(33).normal({20, 2}, 0.3f);
  check_identical_keys(BilinearAttention(BilinearParameters{.W = W.view()}), 20, 2);
  check_identical_keys(GaussianAttention({.sigma = 0.7f}), 2, 2);
}

TEST_CASE("textbook: masked softmax of 2x2x4 has zeros exactly beyond the lengths") {
  const Tensor scores = Random(34).uniform({2, 2, 4}, 0, 1);
  const std::int32_t per_batch[] = {2, 3};
  const std::int32_t per_query[] = {1, 3, 2, 4};
  for_each_target([&](const Target& target) {
    for (const bool rank_two : {false, true}) {
      const auto lens =
          rank_two ? TensorView<const std::int32_t>(per_query, {2, 2}) : TensorView<const std::int32_t>(per_batch, {2});
      Tensor weights{{2, 2, 4}, std::vector<float>(16, kSentinel)};
      masked_softmax(scores.view(), lens, weights.view(), {.target = target});
      for (std::size_t row = 0; row < 4; ++row) {
        const std::int32_t len = rank_two ? per_query[row] : per_batch[row / 2];
        double sum = 0;
        for (std::int32_t n = 0; n < 4; ++n) {
          const float weight = weights.data[row * 4 + static_cast<std::size_t>(n)];
          CHECK((weight == 0) == (n >= len));
          sum += static_cast<double>(weight);
        }
        CHECK(std::abs(sum - 1) <= 1e-6);
      }
    }
  });
}

TEST_CASE("textbook: multi-head attention with 100 hidden units, 5 heads, 4 queries and 6 keys") {
  Random random(35);
  const Tensor W_q = random.normal({100, 100}, 0.1f), W_k = random.normal({100, 100}, 0.1f);
  const Tensor W_v = random.normal({100, 100}, 0.1f), W_o = random.normal({100, 100}, 0.1f);
  const MultiHeadOptions options{.num_heads = 5, .scoring = Scoring::kDot, .scale = {}};
  const MultiHeadParameters parameters{.W_q = W_q.view(),
                                       .W_k = W_k.view(),
                                       .W_v = W_v.view(),
                                       .W_o = W_o.view(),
                                       .b_q = {},
                                       .b_k = {},
                                       .b_v = {},
                                       .b_o = {},
                                       .w_v = {}};
  const Tensor queries{{2, 4, 100}, std::vector<float>(800, 1.0f)};
  const Tensor keys{{2, 6, 100}, std::vector<float>(1200, 1.0f)};
  const std::int32_t lens[] = {3, 2};
  const Inputs in{.queries = queries.view(),
                  .keys = keys.view(),
                  .values = keys.view(),
                  .valid_lens = TensorView<const std::int32_t>(lens, {2})};
  const reference::Result truth = reference::multi_head(options, parameters, in);
  const MultiHeadAttention layer(options, parameters);
  for_each_plan(layer, {.batch = 2, .num_queries = 4, .num_keys = 6}, {}, [&](const Plan& plan, bool with_weights) {
    CHECK(output_sizes(plan, in) == std::vector<std::int64_t>{2, 4, 100});
    CHECK(weights_sizes(plan, in) == std::vector<std::int64_t>{2, 5, 4, 6});
    const RunResult result = run_plan(plan, in, with_weights);
    check_within(result.output, result.attention_weights, truth, {.weights = 2e-6, .output = 1e-5});
  });
}

TEST_CASE("textbook: Nadaraya-Watson regression pools like the gaussian kernel it is") {
  // One feature, 50 training points, sigma 0.5: each output is sum K(x, x_i) y_i / sum K(x, x_i).
  Random random(36);
  const Tensor x = random.uniform({1, 50, 1}, 0, 5);
  Tensor y{{1, 50, 1}, std::vector<float>(50)};
  for (std::size_t i = 0; i < 50; ++i) y.data[i] = 2 * std::sin(x.data[i]) + x.data[i];
  Tensor validation{{1, 20, 1}, std::vector<float>(20)};
  for (std::size_t i = 0; i < 20; ++i) validation.data[i] = static_cast<float>(i) / 4;
  std::vector<double> expected;
  for (const float query : validation.data) {
    double sum = 0, pooled = 0;
    for (std::size_t i = 0; i < 50; ++i) {
      const double distance = static_cast<double>(query) - static_cast<double>(x.data[i]);
      const double weight = std::exp(-distance * distance / (2 * 0.25));
      sum += weight;
      pooled += weight * static_cast<double>(y.data[i]);
    }
    expected.push_back(pooled / sum);
  }
  const Shape shape{.batch = 1, .num_queries = 20, .num_keys = 50, .query_size = 1};
  for_each_plan(GaussianAttention({.sigma = 0.5f}), shape, {}, [&](const Plan& plan, bool with_weights) {
    const Inputs in{.queries = validation.view(), .keys = x.view(), .values = y.view(), .valid_lens = {}};
    // max|score| is 5^2 / 0.5 = 50, max|v| about 7.
    CHECK(max_abs_error(run_plan(plan, in, with_weights).output, expected) <= 2e-7 * 54 * 7);
  });
}

}  // namespace attend::tests
