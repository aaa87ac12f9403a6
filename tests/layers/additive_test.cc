// Additive scores for given pre-activations: the projections are the identity, so that every pre-activation is exact.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

Tensor identity(std::int64_t size) {
  Tensor tensor{{size, size}, std::vector<float>(static_cast<std::size_t>(size * size))};
  for (std::int64_t i = 0; i < size; ++i) tensor.data[static_cast<std::size_t>(i * size + i)] = 1;
  return tensor;
}

// Scores within 4e-7 sum|w_v| of the truth, softmax and pooling within 2e-7 (4 + S) more.
void check_pre_activations(const Tensor& queries, const Tensor& keys, const Tensor& w_v) {
  const std::int64_t size = queries.sizes[2];
  const Tensor eye = identity(size);
  const AdditiveParameters parameters{.W_q = eye.view(), .W_k = eye.view(), .w_v = w_v.view()};
  const Tensor values = Random(60).normal({keys.sizes[0], keys.sizes[1], 5});
  const Inputs in{.queries = queries.view(), .keys = keys.view(), .values = values.view(), .valid_lens = {}};
  const reference::Result truth = reference::additive(parameters, in);
  const Shape shape{
      .batch = queries.sizes[0], .num_queries = queries.sizes[1], .num_keys = keys.sizes[1], .value_size = 5};
  const Bound bound = contract_bound(truth, 4e-7 * max_row_sum(w_v));
  for_each_plan(AdditiveAttention(parameters), shape, {}, [&](const Plan& plan, bool with_weights) {
    const RunResult result = run_plan(plan, in, with_weights);
    check_within(result.output, result.attention_weights, truth, bound);
  });
}

}  // namespace

TEST_CASE("contract 6: additive scores of pre-activations of every size") {
  for (const std::int64_t hidden : {1, 5, 16, 33, 128}) {
    for (const float magnitude : {0.001f, 1.0f, 8.0f, 11.0f, 40.0f, 45.0f, 300.0f, 1e6f, 1e30f}) {
      CAPTURE(hidden);
      CAPTURE(magnitude);
      Random random(61);
      const Tensor w_v = random.normal({1, hidden}, 1 / std::sqrt(static_cast<float>(hidden)));
      check_pre_activations(random.uniform({2, 6, hidden}, -magnitude, magnitude),
                            random.uniform({2, 37, hidden}, -magnitude, magnitude), w_v);
      check_pre_activations(random.spread_out({2, 6, hidden}, magnitude), random.spread_out({2, 37, hidden}, magnitude),
                            w_v);
    }
  }
}

TEST_CASE("contract 6: additive pre-activations of hundreds that cancel") {
  for (const float magnitude : {5.0f, 9.0f, 20.0f, 43.0f, 44.0f, 87.0f, 89.0f, 700.0f, 3e5f}) {
    for (const std::int64_t hidden : {3, 17, 64}) {
      CAPTURE(magnitude);
      CAPTURE(hidden);
      // q = m and k = -m + x with |x| <= 2 on every other unit, the signs swapped on the rest; and rows apart from
      // that.
      Random random(62);
      Tensor queries = random.normal({1, 7, hidden});
      Tensor keys = random.normal({1, 35, hidden});
      for (std::size_t i = 0; i < queries.data.size(); ++i) {
        queries.data[i] = (i % static_cast<std::size_t>(hidden)) % 2 == 0 ? magnitude : -magnitude;
      }
      for (std::size_t i = 0; i < keys.data.size(); ++i) {
        const std::size_t unit = i % static_cast<std::size_t>(hidden);
        keys.data[i] += unit % 2 == 0 ? -magnitude : magnitude;
        if (i / static_cast<std::size_t>(hidden) % 5 == 4) keys.data[i] = -keys.data[i];  // no cancelling: saturated
      }
      check_pre_activations(queries, keys, random.normal({hidden}, 1 / std::sqrt(static_cast<float>(hidden))));
    }
  }
}

TEST_CASE("contract 3: NaN in one hidden unit of one key") {
  Random random(63);
  const Tensor queries = random.normal({1, 3, 9});
  Tensor keys = random.normal({1, 20, 9});
  keys.data[13 * 9 + 4] = std::nanf("");
  check_pre_activations(queries, keys, random.normal({1, 9}));
}

TEST_CASE("additive: w_v of rank 1 or 2, with and without biases, give the same") {
  const LayerCase c({.layer = Layer::kAdditive, .num_queries = 4, .num_keys = 30, .biases = false, .seed = 64});
  AdditiveParameters parameters = c.additive_parameters();
  const RunResult expected = run_plan(c.attention.plan(c.shape), c.inputs());
  parameters.w_v = TensorView<const float>(parameters.w_v.data(), {12});
  CHECK(same_bits(expected, run_plan(AdditiveAttention(parameters).plan(c.shape), c.inputs())));
  const std::vector<float> zeros(12, 0.0f);
  parameters.b_q = parameters.b_k = TensorView<const float>(zeros.data(), {12});
  const RunResult biased = run_plan(AdditiveAttention(parameters).plan(c.shape), c.inputs());
  CHECK(max_abs_error(biased.output, expected.output) <= 1e-6);
}

}  // namespace attend::tests
