// The truth against numbers worked out by hand, since everything else is measured by it.
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "attend/reference.h"
#include "tests/support/compare.h"

namespace attend::tests {
namespace {

using View = TensorView<const float>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("reference: masked softmax by hand") {
  const float scores[] = {0, std::log(3.0f), 7, 1, 1, 1};
  const std::int32_t lens[] = {2, 0};
  const auto weights = reference::masked_softmax(View(scores, {2, 1, 3}), TensorView<const std::int32_t>(lens, {2}));
  CHECK(max_abs_error(weights, std::vector<double>{0.25, 0.75, 0, 0, 0, 0}) <= 1e-7);
  const float special[] = {-kInf, -kInf, -kInf, 0, -kInf, 0, 0, kNaN, 0, 0, kInf, 0};
  CHECK(max_abs_error(reference::masked_softmax(View(special, {1, 4, 3}), {}),
                      std::vector<double>{0, 0, 0, 0.5, 0, 0.5, NAN, NAN, NAN, NAN, NAN, NAN}) == 0);
}

TEST_CASE("reference: dot by hand") {
  const float queries[] = {2, 0}, keys[] = {1, 5, 0, 5}, values[] = {8, 4};
  // Scores 2 * scale and 0: weights 1 / (1 + e^-2s).
  for (const double scale : {1.0 / std::sqrt(2.0), 0.5}) {
    const DotOptions options = scale == 0.5 ? DotOptions{.scale = 0.5f} : DotOptions{};
    const auto result = reference::dot(
        options,
        {.queries = View(queries, {1, 1, 2}), .keys = View(keys, {1, 2, 2}), .values = View(values, {1, 2, 1})});
    const double weight = 1 / (1 + std::exp(-2 * scale));
    CHECK(max_abs_error(result.attention_weights, std::vector{weight, 1 - weight}) <= 1e-15);
    CHECK(max_abs_error(result.output, std::vector{4 + 4 * weight}) <= 1e-14);
    CHECK(result.max_abs_score == doctest::Approx(2 * scale));
    CHECK(result.max_score_terms == result.max_abs_score);
    CHECK(result.max_abs_value == 8);
  }
}

TEST_CASE("reference: the sizes of a score's terms, where these cancel") {
  const float queries[] = {3, -1}, keys[] = {1, 2, 5, 6}, W[] = {0, 2, 1, 0};
  const Inputs in{.queries = View(queries, {1, 1, 2}), .keys = View(keys, {1, 2, 2})};
  // 3 - 2 and 15 - 6
  const auto dot = reference::dot({.scale = -2.0f}, in);
  CHECK(dot.max_abs_score == 18);
  CHECK(dot.max_score_terms == 42);
  // W k = (2 k1, k0), W^T q = (q1, 2 q0): 12 - 1 and 36 - 5, in either order
  const auto bilinear = reference::bilinear({.W = View(W, {2, 2})}, {.scale = 1}, in);
  CHECK(bilinear.max_abs_score == 31);
  CHECK(bilinear.max_score_terms == 41);
  CHECK(reference::gaussian({}, in).max_score_terms == doctest::Approx(0.5 * (4 + 49)));
  // Two heads of one element: nothing cancels within a head.
  const float eye[] = {1, 0, 0, 1};
  const View I(eye, {2, 2});
  const auto heads = reference::multi_head({.num_heads = 2}, {.W_q = I, .W_k = I, .W_v = I, .W_o = I}, in);
  CHECK(heads.max_score_terms == 15);
  CHECK(reference::multi_head({.num_heads = 1, .scale = 1.0f}, {.W_q = I, .W_k = I, .W_v = I, .W_o = I}, in)
            .max_score_terms == 21);
}

TEST_CASE("reference: gaussian, bilinear and additive by hand") {
  const float queries[] = {3}, keys[] = {1, 2}, values[] = {0, 1};
  const Inputs in{
      .queries = View(queries, {1, 1, 1}), .keys = View(keys, {1, 2, 1}), .values = View(values, {1, 2, 1})};
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  // -(2^2) / 8 and -(1^2) / 8
  CHECK(max_abs_error(reference::gaussian({.sigma = 2}, in).output, std::vector{sigmoid(3.0 / 8)}) <= 1e-15);
  const float W[] = {0.5f};
  CHECK(max_abs_error(reference::bilinear({.W = View(W, {1, 1})}, {.scale = 0.25f}, in).output,
                      std::vector{sigmoid(3 * 0.5 * 0.25)}) <= 1e-15);
  const float W_k[] = {-2}, w_v[] = {3}, b_q[] = {1}, b_k[] = {0.25f};
  const AdditiveParameters parameters{.W_q = View(W, {1, 1}),
                                      .W_k = View(W_k, {1, 1}),
                                      .w_v = View(w_v, {1, 1}),
                                      .b_q = View(b_q, {1}),
                                      .b_k = View(b_k, {1})};
  const double difference = 3 * std::tanh(1.5 + 1 - 4 + 0.25) - 3 * std::tanh(1.5 + 1 - 2 + 0.25);
  CHECK(max_abs_error(reference::additive(parameters, in).output, std::vector{sigmoid(difference)}) <= 1e-15);
}

TEST_CASE("reference: multi-head by hand, two heads of one") {
  const float queries[] = {1}, keys[] = {1, 2}, W_q[] = {1, -1}, W_k[] = {1, 2}, W_v[] = {1, 10}, W_o[] = {1, 1, 0, 3};
  const float b_o[] = {100, 0}, w_v[] = {2, 3};
  const Inputs in{.queries = View(queries, {1, 1, 1}), .keys = View(keys, {1, 2, 1})};  // values: the keys
  MultiHeadParameters parameters{.W_q = View(W_q, {2, 1}),
                                 .W_k = View(W_k, {2, 1}),
                                 .W_v = View(W_v, {2, 1}),
                                 .W_o = View(W_o, {2, 2}),
                                 .b_o = View(b_o, {2})};
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto check = [&](const MultiHeadOptions& options, double first, double second) {  // weights of the second key
    const auto result = reference::multi_head(options, parameters, in);
    CHECK(max_abs_error(result.attention_weights, std::vector{1 - first, first, 1 - second, second}) <= 1e-15);
    const double head_0 = 1 + first, head_1 = 10 * (1 + second);
    CHECK(max_abs_error(result.output, std::vector{head_0 + head_1 + 100, 3 * head_1}) <= 1e-13);
    CHECK(result.max_abs_value == 20);
  };
  check({.num_heads = 2}, sigmoid(1), sigmoid(-2));
  parameters.w_v = View(w_v, {2, 1});
  check({.num_heads = 2, .scoring = Scoring::kAdditive}, sigmoid(2 * (std::tanh(3.0) - std::tanh(2.0))),
        sigmoid(3 * (std::tanh(3.0) - std::tanh(1.0))));
}

TEST_CASE("reference: lengths, and what they hide is not read") {
  const float queries[] = {1, 1}, keys[] = {2, kNaN}, values[] = {5, kInf};
  const std::int32_t lens[] = {1, 0};
  const auto result = reference::dot({}, {.queries = View(queries, {1, 2, 1}),
                                          .keys = View(keys, {1, 2, 1}),
                                          .values = View(values, {1, 2, 1}),
                                          .valid_lens = TensorView<const std::int32_t>(lens, {1, 2})});
  CHECK(max_abs_error(result.output, std::vector<double>{5, 0}) == 0);
  CHECK(max_abs_error(result.attention_weights, std::vector<double>{1, 0, 0, 0}) == 0);
  CHECK(result.max_abs_value == 5);
}

TEST_CASE("reference: causal masks by hand, and the future is not read") {
  // Scores are all 0, so an output is the mean of the values that are seen: of 1, 3, 8.
  const float queries[] = {0, 0, 0, 0}, keys[] = {1, 2, 3}, values[] = {1, 3, 8};
  const auto outputs = [&](std::int64_t num_queries, std::int64_t num_keys, Causal causal,
                           TensorView<const std::int32_t> lens = {}) {
    return reference::dot({},
                          {.queries = View(queries, {1, num_queries, 1}),
                           .keys = View(keys, {1, num_keys, 1}),
                           .values = View(values, {1, num_keys, 1}),
                           .valid_lens = lens},
                          {.causal = causal})
        .output;
  };
  using Numbers = std::vector<double>;
  CHECK(max_abs_error(outputs(2, 3, Causal::kNone), Numbers{4, 4}) <= 1e-15);
  CHECK(max_abs_error(outputs(2, 3, Causal::kBottomRight), Numbers{2, 4}) <= 1e-15);
  CHECK(max_abs_error(outputs(2, 3, Causal::kTopLeft), Numbers{1, 2}) <= 1e-15);
  CHECK(max_abs_error(outputs(4, 2, Causal::kBottomRight), Numbers{0, 0, 1, 2}) <= 1e-15);
  CHECK(max_abs_error(outputs(4, 2, Causal::kTopLeft), Numbers{1, 2, 2, 2}) <= 1e-15);
  const std::int32_t per_batch[] = {2}, per_query[] = {3, 0, 1, 3};
  CHECK(max_abs_error(outputs(3, 3, Causal::kTopLeft, {per_batch, {1}}), Numbers{1, 2, 2}) <= 1e-15);
  CHECK(max_abs_error(outputs(4, 3, Causal::kBottomRight, {per_query, {1, 4}}), Numbers{0, 0, 1, 4}) <= 1e-15);

  const float spoiled[] = {1, 3, kNaN};
  const Inputs in{.queries = View(queries, {1, 2, 1}), .keys = View(spoiled, {1, 3, 1})};
  const auto result = reference::gaussian({}, in, {.causal = Causal::kTopLeft});
  CHECK(std::isfinite(result.output[1]));
  CHECK(result.max_abs_value == 3);
  CHECK(result.attention_weights[2] == 0);
}

TEST_CASE("reference: skipped queries are not read and give 0, without bias") {
  const float queries[] = {2, kNaN, kInf, kNaN}, keys[] = {1, 1, 4, 4}, one[] = {1}, bias[] = {100};
  const std::int32_t lens[] = {1, 0};
  const Inputs in{.queries = View(queries, {2, 2, 1}),
                  .keys = View(keys, {2, 2, 1}),
                  .valid_lens = TensorView<const std::int32_t>(lens, {2})};
  const reference::Mask skip{.padding = Padding::kSkipQueries};
  const View matrix(one, {1, 1});
  const std::vector<double> expected = {1, 0, 0, 0}, with_bias = {101, 0, 0, 0};
  CHECK(max_abs_error(reference::dot({}, in, skip).output, expected) == 0);
  CHECK(max_abs_error(reference::gaussian({}, in, skip).output, expected) == 0);
  CHECK(max_abs_error(reference::bilinear({.W = matrix}, {}, in, skip).output, expected) == 0);
  CHECK(max_abs_error(reference::additive({.W_q = matrix, .W_k = matrix, .w_v = matrix}, in, skip).output, expected) ==
        0);
  const MultiHeadParameters parameters{
      .W_q = matrix, .W_k = matrix, .W_v = matrix, .W_o = matrix, .b_o = View(bias, {1})};
  const auto heads = reference::multi_head({}, parameters, in, skip);
  CHECK(max_abs_error(heads.output, with_bias) == 0);
  CHECK(max_abs_error(heads.attention_weights, std::vector<double>{1, 0, 0, 0, 0, 0, 0, 0}) == 0);

  Inputs all = in;  // no lengths: nothing is skipped
  all.valid_lens = {};
  CHECK(std::isnan(reference::dot({}, all, skip).output[1]));
}

TEST_CASE("reference: heads that share keys and values") {
  // Heads 0 and 1 of queries see head 0 of keys, 2 and 3 head 1.
  const float queries[] = {1, 2, 1, 2}, keys[] = {1, 0, 3, 1}, values[] = {1, 2, 3, 4};  // (1, 2, 2, 1)
  const auto result = reference::dot(
      {},
      {.queries = View(queries, {1, 4, 1, 1}), .keys = View(keys, {1, 2, 2, 1}), .values = View(values, {1, 2, 2, 1})});
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::vector<double> expected = {1 + sigmoid(-1), 1 + sigmoid(-2), 3 + sigmoid(-2), 3 + sigmoid(-4)};
  CHECK(max_abs_error(result.output, expected) <= 1e-15);
  CHECK(result.attention_weights.size() == 8);

  // The same scores from one input of 1, keys of 1 and 2, and maps: query heads 1 and -1 on one head of keys.
  const float input[] = {1}, tokens[] = {1, 2}, W_q[] = {1, -1}, W_k[] = {3}, W_v[] = {10}, W_o[] = {1, 0, 0, 1};
  const auto heads = reference::multi_head(
      {.num_heads = 2, .num_kv_heads = 1},
      {.W_q = View(W_q, {2, 1}), .W_k = View(W_k, {1, 1}), .W_v = View(W_v, {1, 1}), .W_o = View(W_o, {2, 2})},
      {.queries = View(input, {1, 1, 1}), .keys = View(tokens, {1, 2, 1})});
  CHECK(max_abs_error(heads.output, std::vector{10 + 10 * sigmoid(3), 10 + 10 * sigmoid(-3)}) <= 1e-14);
  CHECK(heads.attention_weights.size() == 4);
}

TEST_CASE("reference: heads that are split already") {
  const float queries[] = {1, 2}, keys[] = {1, 0, 3, 1}, values[] = {1, 2, 3, 4};  // (1, 2, n, 1)
  const auto result = reference::dot(
      {},
      {.queries = View(queries, {1, 2, 1, 1}), .keys = View(keys, {1, 2, 2, 1}), .values = View(values, {1, 2, 2, 1})});
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  CHECK(max_abs_error(result.output, std::vector{1 + sigmoid(-1), 3 + sigmoid(-4)}) <= 1e-15);
}

}  // namespace attend::tests
