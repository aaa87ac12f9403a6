// Lanes take the heads of an item one after the other, or step by step of keys, as memory lies: the same bits for any
// order, any number of heads an item, and whether they prefetch. What plans choose depends on the CPU, so that these
// plans are made by hand. Truth: tests/layers/, of which any order has the bits.
#include <cstddef>
#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/plan/layer.h"
#include "engine/plan/layout.h"
#include "engine/plan/planner.h"
#include "engine/plan/plan_impl.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/layouts.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

struct Order {
  std::size_t head_ranges;
  bool in_order, prefetches;
};

Plan plan_in(const detail::PlanImpl& like, const Order& order) {
  auto plan = std::make_shared<detail::PlanImpl>(like);
  plan->head_ranges = order.head_ranges;
  plan->lanes_prefetch = {.least_far_bytes = 0,
                          .prefetches = order.prefetches,
                          .two_lines = order.head_ranges == 3,
                          .in_order = order.in_order,
                          .beside_values = order.head_ranges != 2};
  detail::lay_out_workspace(*plan);
  return Plan(std::move(plan));
}

}  // namespace

TEST_CASE("dot/lanes: heads one by one, or step by step together, prefetching or not, the same bits") {
  // Of 300 keys there are three steps, of 40 one; 2100 are three chunks.
  for (const std::int64_t num_keys : {40, 300, 2100}) {
    for (const Lens lens : {Lens::kNone, Lens::kPerQuery}) {
      const LayerCase c({.layer = Layer::kDotHeads,
                         .batch = 2,
                         .num_queries = 5,
                         .num_keys = num_keys,
                         .size = 20,
                         .value_size = 36,
                         .num_heads = 6,
                         .num_kv_heads = 3,
                         .causal = lens == Lens::kNone ? Causal::kBottomRight : Causal::kNone,
                         .lens = lens,
                         .seed = 612});
      const Laid queries = lay_out(c.queries.view(), Layout::kRowsOutside);
      const Laid keys = lay_out(c.keys.view(), Layout::kRowsOutside);
      const Laid values = lay_out(c.values.view(), Layout::kRowsOutside);
      Inputs side_by_side = c.inputs();
      side_by_side.queries = queries.view();
      side_by_side.keys = keys.view();
      side_by_side.values = values.view();
      for_each_target([&](const Target& target) {
        for (const bool weights : {false, true}) {
          CAPTURE(num_keys);
          CAPTURE(weights);
          PlanOptions options = c.plan_options();
          options.target = target;
          options.path = "dot/lanes";
          options.attention_weights = weights;
          const auto like = detail::make_plan(std::make_shared<detail::LayerImpl>(), c.shape, options);
          const RunResult expected = run_plan(plan_in(*like, {3, false, false}), c.inputs(), weights);
          for (const std::size_t ranges : {1, 2, 3}) {
            for (const bool prefetches : {false, true}) {
              CAPTURE(ranges);
              CAPTURE(prefetches);
              const Plan plan = plan_in(*like, {ranges, true, prefetches});
              CHECK(same_bits(expected, run_plan(plan, c.inputs(), weights)));
              CHECK(same_bits(expected, run_plan(plan, side_by_side, weights)));
            }
          }
          CHECK(same_bits(expected, run_plan(plan_in(*like, {3, false, true}), side_by_side, weights)));
        }
      });
    }
  }
}

}  // namespace attend::tests
