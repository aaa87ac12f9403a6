// Few queries against more keys than a quarter of 48 MB of L3 holds: what a step or a head will want is prefetched
// while the one before is at work. No bit shows it: entries alone, which are small enough not to prefetch, threads,
// whose next head is a guess, and prepared keys all give the same. Truth: the reference in double precision.
#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/masks.h"
#include "tests/support/run.h"

namespace attend::tests {

TEST_CASE("rows ahead: heads of 12 MB in all are what they are alone, on any number of threads, and prepared") {
  for (const Lens lens : {Lens::kNone, Lens::kPerQuery}) {
    const LayerCase c({.layer = Layer::kDotHeads,
                       .batch = 24,
                       .num_queries = 4,  // 8 rows per key-value head: values are kept for the second half of them
                       .num_keys = 300,
                       .size = 64,
                       .value_size = 80,
                       .num_heads = 6,
                       .num_kv_heads = 3,
                       .lens = lens,
                       .seed = 511});
    const reference::Result truth = c.truth();
    for_each_target([&](const Target& target) {
      const Plan plan = c.attention.plan(c.shape, {.target = target, .path = "dot/lanes"});
      const RunResult result = run_plan(plan, c.inputs());
      check_within(result.output, result.attention_weights, truth, c.bound(truth));
      check_same_alone(c, plan, false);
      check_same_for_threads(c, plan, false);
      check_same_prepared(c, plan, false);
    });
  }
}

}  // namespace attend::tests
