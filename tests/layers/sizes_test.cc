// The contract (engine/README.md), line 6: every layer agrees with the reference, around lane counts and at odd sizes.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

void check_case(const LayerCase& c) {
  const reference::Result truth = c.truth();
  const Bound bound = c.bound(truth);
  for_each_plan(c, [&](const Plan& plan, bool with_weights) {
    CHECK(plan.output_size() == c.output_size());
    const RunResult result = run_plan(plan, c.inputs(), with_weights);
    check_within(result.output, result.attention_weights, truth, bound);
    for (std::size_t i = 0; i < result.attention_weights.size(); ++i) {
      if (truth.attention_weights[i] == 0 && result.attention_weights[i] != 0) FAIL_CHECK("weight of a masked key");
    }
  });
}

constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 600};
constexpr std::int64_t kOddSizes[] = {1, 3, 17, 40};

}  // namespace

TEST_CASE("contract 6: every number of keys around the lane counts") {
  for (const Layer layer : kAllLayers) {
    for (const std::int64_t num_keys : kSizes) {
      for (const Lens lens : kAllLens) {
        check_case(LayerCase({.layer = layer, .num_keys = num_keys, .lens = lens, .seed = 41}));
      }
    }
  }
}

TEST_CASE("contract 6: every number of queries around the lane counts") {
  for (const Layer layer : kAllLayers) {
    for (const std::int64_t num_queries : kSizes) {
      check_case(LayerCase({.layer = layer, .num_queries = num_queries, .lens = Lens::kPerQuery, .seed = 42}));
    }
  }
}

TEST_CASE("contract 6: odd query, key and value sizes, hidden units and heads") {
  for (const Layer layer : kAllLayers) {
    for (const std::int64_t size : kOddSizes) {
      for (const std::int64_t value_size : kOddSizes) {
        check_case(LayerCase({.layer = layer,
                              .num_queries = 7,
                              .num_keys = 21,
                              .size = size,
                              .value_size = value_size,
                              .num_hiddens = size * 2,
                              .num_heads = 2,
                              .seed = 43}));
      }
    }
  }
}

TEST_CASE("contract 6: sizes of real models") {
  for (const Layer layer : kAllLayers) {
    check_case(LayerCase({.layer = layer,
                          .batch = 1,
                          .num_queries = 50,
                          .num_keys = 130,
                          .size = 64,
                          .value_size = 64,
                          .num_hiddens = 96,
                          .num_heads = 3,
                          .seed = 44}));
  }
}

TEST_CASE("contract 6: scores that spread over thousands") {
  for (const Layer layer : {Layer::kDot, Layer::kDotHeads, Layer::kGaussian, Layer::kGaussianHeads}) {
    for (const float spread : {10.0f, 100.0f}) {
      for (const std::int64_t num_keys : {40, 300}) {
        check_case(LayerCase({.layer = layer, .num_queries = 6, .num_keys = num_keys, .spread = spread, .seed = 45}));
      }
    }
  }
}

TEST_CASE("contract 6: dot products that cancel stay within the bound of the largest score") {
  // Row m has q.k of every size from 1e-6 to 1e6, the terms of both signs.
  LayerCase c({.layer = Layer::kDot, .num_queries = 9, .num_keys = 65, .size = 2, .seed = 46});
  Random random(47);
  c.queries = random.spread_out(c.queries.sizes, 1000);
  c.keys = random.spread_out(c.keys.sizes, 1000);
  check_case(c);
}

TEST_CASE("contract 6: gaussian scores far from the origin") {
  for (const float offset : {10.0f, 1000.0f}) {
    LayerCase c({.layer = Layer::kGaussian, .num_queries = 9, .num_keys = 65, .size = 3, .seed = 48});
    // Multiples of 1/64, so that the shifted inputs are what they would be without rounding.
    for (Tensor* tensor : {&c.queries, &c.keys}) {
      for (float& x : tensor->data) x = std::round(x * 64) / 64 + offset;
    }
    CAPTURE(offset);
    check_case(c);
  }
}

TEST_CASE("gaussian: a key far away, wherever it stands, takes no accuracy from those that are near") {
  constexpr std::int64_t kKeys = 40;
  for (const float far : {1e2f, -1e4f, 1e8f, 1e18f, -1e25f}) {
    for (const std::int64_t place : {0, 1, 2, 3, 39}) {
      LayerCase c({.layer = Layer::kGaussian, .num_queries = 9, .num_keys = kKeys, .size = 3, .seed = 49});
      const auto batch = static_cast<std::size_t>(c.spec.batch);
      LayerCase without = c;  // the far key sees to it that its weight is 0
      for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t k = 0; k < 3; ++k) {
          c.keys.data[(b * kKeys + static_cast<std::size_t>(place)) * 3 + k] = far;
          without.keys.data[(b * kKeys + static_cast<std::size_t>(place)) * 3 + k] = 100;
        }
      }
      const reference::Result truth = without.truth();
      CAPTURE(far);
      CAPTURE(place);
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult result = run_plan(plan, c.inputs(), with_weights);
        check_within(result.output, result.attention_weights, truth, {2e-6, 2e-6});
      });
    }
  }
}

TEST_CASE("gaussian: keys that a row does not see, farther from those that it sees than floats can tell") {
  LayerCase c({.layer = Layer::kGaussian,
               .batch = 1,
               .num_queries = 3,
               .num_keys = 3,
               .size = 1,
               .value_size = 1,
               .causal = Causal::kTopLeft,
               .seed = 50});
  c.queries.data = {0, 0, 0};
  c.keys.data = {0, 3e19f, 3e19f};
  c.values.data = {1, 2, 3};
  for_each_plan(c, [&](const Plan& plan, bool with_weights) {
    const RunResult result = run_plan(plan, c.inputs(), with_weights);
    CHECK(result.output[0] == 1.0f);
    CHECK(result.output[1] == 1.0f);
  });
}

TEST_CASE("runs with fewer batch entries, queries or keys than were planned for") {
  for (const Layer layer : kAllLayers) {
    const LayerCase large({.layer = layer, .batch = 4, .num_queries = 50, .num_keys = 300, .seed = 49});
    for (const auto& [batch, num_queries, num_keys] : std::vector<std::array<std::int64_t, 3>>{
             {1, 1, 1}, {3, 50, 17}, {4, 7, 299}, {2, 49, 64}, {0, 5, 5}, {2, 0, 9}}) {
      const LayerCase c({.layer = layer,
                         .batch = batch,
                         .num_queries = num_queries,
                         .num_keys = num_keys,
                         .lens = batch * num_queries == 0 ? Lens::kNone : Lens::kPerQuery,
                         .seed = 49});
      const reference::Result truth = c.truth();
      check_truth(large, c.inputs(), truth, c.bound(truth));
    }
  }
}

TEST_CASE("Luong's attentional concat: each output row is [context; query]") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .num_queries = 5, .num_keys = 40, .size = 7, .seed = 50});
    for_each_target([&](const Target& target) {
      for (const bool with_weights : {false, true}) {
        PlanOptions options{.target = target, .attention_weights = with_weights};
        const RunResult plain = run_plan(c.attention.plan(c.shape, options), c.inputs(), with_weights);
        options.concat_queries = true;
        const Plan plan = c.attention.plan(c.shape, options);
        INFO(layer_name(layer));
        CHECK(plan.output_size() == c.output_size() + 7);
        const RunResult result = run_plan(plan, c.inputs(), with_weights);
        CHECK(same_bits(result.attention_weights, plain.attention_weights));
        const std::size_t width = static_cast<std::size_t>(c.output_size());
        const std::size_t rows = plain.output.size() / width;
        REQUIRE(result.output.size() == rows * (width + 7));
        bool same = true;
        for (std::size_t row = 0; row < rows; ++row) {
          same = same && same_bits(&result.output[row * (width + 7)], &plain.output[row * width], width);
          same = same && same_bits(&result.output[row * (width + 7) + width], &c.queries.data[row * 7], 7);
        }
        CHECK(same);
      }
    });
  }
}

TEST_CASE("options: scale, sigma and missing values") {
  const LayerCase c({.layer = Layer::kDot, .num_queries = 4, .num_keys = 30, .seed = 51});
  Inputs keys_as_values = c.inputs();
  keys_as_values.values = {};
  Shape shape = c.shape;
  shape.value_size = 0;  // the key size
  for (const float scale : {0.0f, 1.0f, -0.7f, 30.0f}) {
    const reference::Result truth = reference::dot({.scale = scale}, keys_as_values);
    for_each_plan(DotAttention({.scale = scale}), shape, {}, [&](const Plan& plan, bool with_weights) {
      const RunResult result = run_plan(plan, keys_as_values, with_weights);
      check_within(result.output, result.attention_weights, truth, contract_bound(truth));
    });
  }
  for (const float sigma : {0.1f, 3.0f, 1e4f}) {
    const reference::Result truth = reference::gaussian({.sigma = sigma}, keys_as_values);
    for_each_plan(GaussianAttention({.sigma = sigma}), shape, {}, [&](const Plan& plan, bool with_weights) {
      const RunResult result = run_plan(plan, keys_as_values, with_weights);
      check_within(result.output, result.attention_weights, truth, contract_bound(truth));
    });
  }
}

}  // namespace attend::tests
