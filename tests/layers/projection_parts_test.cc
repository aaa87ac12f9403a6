// Projections by bfloat16 parts, in layers: within the contract's bound, and plain where plain sums are asked for.
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/base/cpus.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {

TEST_CASE("parts: never means plain sums of projections") {
  const LayerCase c({.layer = Layer::kMultiHead,
                     .num_queries = 97,
                     .num_keys = 150,
                     .size = 96,
                     .value_size = 20,
                     .num_hiddens = 96,
                     .pairs = Pairs::kNever,
                     .seed = 302});
  for_each_target([&](const Target& target) {
    PlanOptions options{.target = target, .pairs = Pairs::kNever, .parts = Parts::kNever};
    const Plan never = c.attention.plan(c.shape, options);
    options.parts = Parts::kWhereFaster;
    const Plan faster = c.attention.plan(c.shape, options);
    for (const Plan& plan : {never, faster}) {
      check_within(run_plan(plan, c.inputs()).output, {}, c.truth(), c.bound(c.truth()));
    }
    const bool differs = this_cpu().has_tiles && target.name().starts_with("AVX3");
    CHECK(same_bits(run_plan(never, c.inputs()), run_plan(faster, c.inputs())) == !differs);
    if (differs) CHECK(never.explain().find("unless plain sums are asked for") != std::string::npos);
    const bool layer_has = this_cpu().has_tiles && Target::best().name().starts_with("AVX3");
    CHECK((never.explain().find("on AVX3 by bfloat16 parts (this CPU multiplies tiles)") != std::string::npos) ==
          layer_has);
    CHECK(faster.cost({.flops = 1e11}).projection_seconds <= never.cost({.flops = 1e11}).projection_seconds);
  });
}

}  // namespace attend::tests
