// Padding::kSkipQueries: queries beyond their entry's valid length are neither read nor computed, and 0 comes out; the
// others are what they are without. Every layer, target and path, with and without attention weights.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/layouts.h"
#include "tests/support/masks.h"
#include "tests/support/prepared.h"
#include "tests/support/ready.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

// Four entries: whole, partly, hardly and not at all valid.
LayerCase the_case(Layer layer, std::int64_t num_queries, std::int64_t num_keys, CaseSpec rest = {}) {
  rest.layer = layer;
  rest.batch = 4;
  rest.num_queries = num_queries;
  rest.num_keys = num_keys;
  rest.padding = Padding::kSkipQueries;
  rest.lens = Lens::kPerBatch;
  if (rest.seed == 1) rest.seed = 701;
  LayerCase c(rest);
  const auto n = static_cast<std::int32_t>(num_keys);
  c.lens.data = {n, n / 2, std::min(n, 1), 0};
  return c;
}

// Rows of (B, heads, M, size): those that are skipped hold 0, bit for bit, the others the bits of `computed`.
void check_rows(const LayerCase& c, const std::vector<float>& rows, const std::vector<float>& computed,
                std::int64_t heads, std::int64_t size) {
  REQUIRE(rows.size() == computed.size());
  const std::vector<float> zero(static_cast<std::size_t>(size), 0.0f);
  bool zeros = true, same = true;
  for (std::int64_t b = 0; b < c.spec.batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t m = 0; m < c.spec.num_queries; ++m) {
        const std::int64_t at = ((b * heads + h) * c.spec.num_queries + m) * size;
        const bool skipped = m >= c.computed_queries(b);
        const bool agree =
            same_bits(rows.data() + at, skipped ? zero.data() : computed.data() + at, static_cast<std::size_t>(size));
        (skipped ? zeros : same) &= agree;
      }
    }
  }
  CHECK(zeros);
  CHECK(same);
}
void check_rows(const LayerCase& c, const Plan& plan, const RunResult& result, const RunResult& computed) {
  check_rows(c, result.output, computed.output, c.view_heads(), plan.output_size());
  if (result.attention_weights.empty()) return;
  check_rows(c, result.attention_weights, computed.attention_weights, c.weight_heads(), c.spec.num_keys);
}

// The same plan but for the padding.
Plan computing(const LayerCase& c, const Plan& plan, bool with_weights) {
  PlanOptions options = options_of(c, plan, with_weights);
  options.padding = Padding::kCompute;
  return c.attention.plan(c.shape, options);
}

const std::vector<std::array<std::int64_t, 2>> kSizes = {{9, 9},  {1, 1},   {5, 9},    {12, 5},
                                                         {3, 70}, {70, 66}, {150, 150}};

}  // namespace

TEST_CASE("skipped queries: the truth; skipped rows are 0, the others have the bits of a plan that computes all") {
  for (const Layer layer : kAllLayers) {
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight, Causal::kTopLeft}) {
      for (const auto& [num_queries, num_keys] : kSizes) {
        const LayerCase c = the_case(layer, num_queries, num_keys, {.causal = causal});
        const reference::Result truth = c.truth();
        const Bound bound = c.bound(truth);
        for_each_plan(c, [&](const Plan& plan, bool with_weights) {
          const RunResult result = run_plan(plan, c.inputs(), with_weights);
          check_within(result.output, result.attention_weights, truth, bound);
          check_rows(c, plan, result, run_plan(computing(c, plan, with_weights), c.inputs(), with_weights));
        });
      }
    }
  }
}

TEST_CASE("skipped queries: heads that share keys") {
  for (const Layer layer : {Layer::kDotHeads, Layer::kGaussianHeads, Layer::kMultiHead}) {
    for (const auto& [num_queries, num_keys] : kSizes) {
      const LayerCase c =
          the_case(layer, num_queries, num_keys, {.num_hiddens = 24, .num_heads = 6, .num_kv_heads = 2});
      const reference::Result truth = c.truth();
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult result = run_plan(plan, c.inputs(), with_weights);
        check_within(result.output, result.attention_weights, truth, c.bound(truth));
        check_rows(c, plan, result, run_plan(computing(c, plan, with_weights), c.inputs(), with_weights));
      });
    }
  }
}

TEST_CASE("skipped queries: what their rows hold does not matter") {
  for (const Layer layer : kAllLayers) {
    for (const auto& [num_queries, num_keys] : kSizes) {
      const LayerCase clean = the_case(layer, num_queries, num_keys);
      LayerCase spoiled = clean;
      spoil_from(spoiled.queries, [&](std::int64_t b) { return clean.computed_queries(b); });
      spoil_from(spoiled.keys, [&](std::int64_t b) { return clean.visible_keys(b); });
      spoil_from(spoiled.values, [&](std::int64_t b) { return clean.visible_keys(b); });
      for_each_plan(clean, [&](const Plan& plan, bool with_weights) {
        CHECK(same_bits(run_plan(plan, clean.inputs(), with_weights), run_plan(plan, spoiled.inputs(), with_weights)));
      });
    }
  }
}

TEST_CASE("skipped queries: their rows may be unmapped, in self-attention those of all three") {
  for (const Layer layer : kAllLayers) {
    for (const std::int32_t len : {1, 5, 16, 33}) {
      CaseSpec spec{.layer = layer,
                    .batch = 1,
                    .num_queries = 70,
                    .num_keys = 70,
                    .size = 5,
                    .padding = Padding::kSkipQueries,
                    .same_sizes = true,
                    .seed = 702};
      LayerCase c(spec);
      c.lens.data = {len};
      const GuardedRows queries(c.queries, len);
      Inputs self = c.inputs(), guarded = c.inputs();
      self.keys = self.values = guarded.keys = guarded.values = {};
      guarded.queries = queries.view();
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        CHECK(same_bits(run_plan(plan, self, with_weights), run_plan(plan, guarded, with_weights)));
      });
    }
  }
}

TEST_CASE("skipped queries: the same bits for any number of threads and any batch composition") {
  for (const Layer layer : kAllLayers) {
    for (const auto& [num_queries, num_keys] : std::vector<std::array<std::int64_t, 2>>{{83, 83}, {3, 1500}}) {
      const LayerCase c = the_case(layer, num_queries, num_keys);
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        check_same_for_threads(c, plan, with_weights);
        check_same_alone(c, plan, with_weights);
      });
    }
  }
}

TEST_CASE("skipped queries: without lengths there are none") {
  for (const Layer layer : kAllLayers) {
    LayerCase c = the_case(layer, 20, 9);
    c.lens = {};
    for_each_plan(c, [&](const Plan& plan, bool with_weights) {
      CHECK(same_bits(run_plan(plan, c.inputs(), with_weights),
                      run_plan(computing(c, plan, with_weights), c.inputs(), with_weights)));
    });
  }
}

TEST_CASE("skipped queries: prepared keys and lengths give the bits of keys, values and lengths themselves") {
  for (const Layer layer : kAllLayers) {
    for (const auto& [num_queries, num_keys] : kSizes) {
      const LayerCase c = the_case(layer, num_queries, num_keys);
      for_each_plan(c, [&](const Plan& plan, bool with_weights) {
        const RunResult expected = run_plan(plan, c.inputs(), with_weights);
        PoisonedKeys prepared(plan);
        prepare(plan, key_inputs(c.inputs()), prepared.keys);
        Inputs in = on_prepared(c.inputs(), prepared.keys);
        in.valid_lens = c.inputs().valid_lens;
        CHECK(same_bits(expected, run_plan(plan, in, with_weights)));
      });
    }
  }
}

TEST_CASE("skipped queries: prepared keys and no lengths in the run skip none") {
  for (const Layer layer : kAllLayers) {
    LayerCase c = the_case(layer, 20, 9);
    c.lens = {};
    for_each_plan(c, [&](const Plan& plan, bool with_weights) { check_same_prepared(c, plan, with_weights); });
  }
}

TEST_CASE("skipped queries: Luong's concatenated queries are 0 there too") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c = the_case(layer, 20, 20);
    for_each_target([&](const Target& target) {
      INFO(layer_name(layer));
      PlanOptions options = c.plan_options();
      options.target = target;
      options.concat_queries = true;
      const Plan plan = c.attention.plan(c.shape, options);
      options.padding = Padding::kCompute;
      const RunResult computed = run_plan(c.attention.plan(c.shape, options), c.inputs());
      check_rows(c, run_plan(plan, c.inputs()).output, computed.output, c.view_heads(), plan.output_size());
    });
  }
}

TEST_CASE("skipped queries: outputs with gaps, which stay as they are") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c = the_case(layer, 20, 20);
    PlanOptions options = c.plan_options();
    options.attention_weights = true;
    for_each_target([&](const Target& target) {
      INFO(layer_name(layer));
      options.target = target;
      const Plan plan = c.attention.plan(c.shape, options);
      const RunResult expected = run_plan(plan, c.inputs(), true);
      for (const Layout layout : kAllLayouts) {
        Laid output = lay_out(output_sizes(plan, c.inputs()), layout);
        Laid weights = lay_out(weights_sizes(plan, c.inputs()), layout);
        Workspace workspace(plan);
        poison(workspace);
        plan.run(c.inputs(), {.output = output.view(), .attention_weights = weights.view()}, workspace);
        const auto written = [](const Laid& laid) {  // gaps were NaN
          return std::count_if(laid.memory.begin(), laid.memory.end(), [](float x) { return x == x; });
        };
        const Laid& out = output;
        const Laid& w = weights;
        CHECK(same_bits(dense(out.view()), expected.output));
        CHECK(same_bits(dense(w.view()), expected.attention_weights));
        CHECK(static_cast<std::size_t>(written(output)) == expected.output.size());
        CHECK(static_cast<std::size_t>(written(weights)) == expected.attention_weights.size());
      }
    });
  }
}

TEST_CASE("skipped queries: fewer batch entries, queries or keys than were planned for") {
  for (const Layer layer : kAllLayers) {
    const LayerCase large = the_case(layer, 50, 300);
    for (const auto& [num_queries, num_keys] :
         std::vector<std::array<std::int64_t, 2>>{{1, 1}, {50, 17}, {7, 299}, {3, 0}, {0, 9}}) {
      const LayerCase c = the_case(layer, num_queries, num_keys);
      const reference::Result truth = c.truth();
      check_truth(large, c.inputs(), truth, c.bound(truth));
    }
  }
}

TEST_CASE("skipped queries: lengths per query are refused before any output changes") {
  for (const Layer layer : kAllLayers) {
    const LayerCase c({.layer = layer, .padding = Padding::kSkipQueries, .lens = Lens::kPerQuery});
    const Plan plan = c.attention.plan(c.shape, c.plan_options());
    CHECK(run_message(plan, c.inputs()) ==
          "valid_lens is (2, 3), expected rank 1: the plan was made with Padding::kSkipQueries");
  }
}

}  // namespace attend::tests
