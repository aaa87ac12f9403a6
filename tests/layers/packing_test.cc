// Keys and values may be packed for all queries of a head, or some at a time for the one group of queries that meets
// them: which of the two shows in no bit, whatever multiplies, and plans say so.
#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

// Keys and values of more than two passes: 256 KiB of floats, 384 of bfloat16 parts.
CaseSpec spec_of(Layer layer) {
  return {.layer = layer,
          .batch = 1,
          .num_queries = 50,
          .num_keys = 700,
          .size = 128,
          .value_size = 120,
          .num_heads = 1,
          .spread = 0.5f,
          .seed = 331};
}

bool packs_at_a_time(const Plan& plan) { return plan.explain().find("\n  packing ") != std::string::npos; }

// Of prepared keys a head is whole.
void check_as_prepared(const LayerCase& c, PlanOptions options) {
  const Plan plan = c.attention.plan(c.shape, options);
  CHECK(packs_at_a_time(plan));
  const RunResult result = run_plan(plan, c.inputs(), false);
  const reference::Result truth = c.truth();
  check_within(result.output, {}, truth, c.bound(truth));
  options.prepared_keys = true;
  const Plan on_whole = c.attention.plan(c.shape, options);
  PoisonedKeys prepared(on_whole);
  prepare(on_whole, key_inputs(c.inputs()), prepared.keys);
  CHECK(same_bits(result, run_plan(on_whole, on_prepared(c.inputs(), prepared.keys), false)));
}

}  // namespace

TEST_CASE("packing: some keys at a time give the bits of whole heads, plainly, by pairs and by parts") {
  for (const Lens lens : kAllLens) {
    CaseSpec spec = spec_of(Layer::kDot);
    spec.lens = lens;
    spec.causal = lens == Lens::kPerQuery ? Causal::kBottomRight : Causal::kNone;
    LayerCase c(spec);
    for (float& x : c.keys.data) x += 0.1f;
    // Keys and values beyond the first pass that are not fit for pairs.
    for (std::int64_t k = 0; k < spec.size; ++k) c.keys.data[static_cast<std::size_t>(400 * spec.size + k)] *= 8;
    for (std::int64_t k = 0; k < spec.value_size; ++k) {
      c.values.data[static_cast<std::size_t>(300 * spec.value_size + k)] *= 30;
    }
    for_each_target([&](const Target& target) {
      PlanOptions options = c.plan_options();
      options.target = target;
      options.path = "dot/fused";
      for (const Pairs pairs : {Pairs::kNever, Pairs::kAlways}) {
        options.pairs = pairs;
        options.parts = Parts::kNever;
        check_as_prepared(c, options);
      }
      options.parts = Parts::kAlways;
      check_as_prepared(c, options);
    });
  }
}

TEST_CASE("packing: gaussian attention, whose keys are moved, too") {
  for (const Lens lens : kAllLens) {
    CaseSpec spec = spec_of(Layer::kGaussian);
    spec.lens = lens;
    const LayerCase c(spec);
    for_each_target([&](const Target& target) { check_as_prepared(c, {.target = target}); });
  }
}

TEST_CASE("packing: whole heads where several groups or heads of queries, or weights, want the same keys") {
  const auto packs = [](const Shape& shape, const PlanOptions& options) {
    return packs_at_a_time(DotAttention().plan(shape, options));
  };
  for_each_target([&](const Target& target) {
    const PlanOptions fused{.target = target, .path = "dot/fused"};
    const Shape one{.num_queries = 50, .num_keys = 700, .query_size = 128};
    CHECK(packs(one, fused));
    CHECK(!packs({.num_queries = 50, .num_keys = 200, .query_size = 128}, fused));  // one pass
    CHECK(!packs({.num_queries = 800, .num_keys = 700, .query_size = 128}, fused));
    CHECK(!packs({.num_queries = 50, .num_keys = 700, .query_size = 128, .num_heads = 2, .num_kv_heads = 1}, fused));
    CHECK(packs({.num_queries = 50, .num_keys = 700, .query_size = 128, .num_heads = 2}, fused));
    CHECK(!packs(one, {.target = target, .attention_weights = true, .path = "dot/fused"}));
    CHECK(!packs(one, {.target = target, .path = "dot/materialised"}));
    CHECK(packs({.num_queries = 20, .num_keys = 2000, .query_size = 128}, fused));  // chunks of a head
  });
}

TEST_CASE("packing: a worker has room for the keys that it packs at a time, not for all of a head") {
  const auto bytes = [](std::int64_t num_keys) {
    return DotAttention()
        .plan({.num_queries = 64, .num_keys = num_keys, .query_size = 128},
              {.path = "dot/fused", .parts = Parts::kNever})
        .workspace_bytes();
  };
  CHECK(bytes(std::int64_t{1} << 20) <= std::size_t{1} << 20);
}

}  // namespace attend::tests
