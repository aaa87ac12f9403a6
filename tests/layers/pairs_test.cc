// Which tiles go by pairs of terms, and that plans say so. That the contract holds for them: products_test.cc.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/base/cpus.h"
#include "engine/kernels/linear_rows.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr const char* kTiled[] = {"dot/fused", "dot/materialised"};
std::vector<std::string> tiled_paths(Layer layer) {
  if (layer == Layer::kAdditive) return {"additive/factored"};
  return {kTiled[0], kTiled[1]};
}

// More than two panels of 64 keys, and two tiles of 48 queries.
CaseSpec spec_of(Layer layer) {
  return {.layer = layer,
          .num_queries = 97,
          .num_keys = 150,
          .size = 32,
          .value_size = 20,
          .num_hiddens = 48,
          .pairs = Pairs::kAlways,
          .seed = 301};
}

bool says(const Plan& plan, const char* text) { return plan.explain().find(text) != std::string::npos; }
bool scores_by_pairs(const Plan& plan) { return says(plan, "by pairs of terms, where queries and keys are fit"); }
bool pools_by_pairs(const Plan& plan) { return says(plan, "by pairs of terms, where weights and values are fit"); }

}  // namespace

TEST_CASE("pairs: tiles go by them where they are asked for, and plans say so") {
  const LayerCase c(spec_of(Layer::kDot));
  for_each_target([&](const Target& target) {
    for (const char* path : kTiled) {
      PlanOptions options{.target = target, .path = path, .pairs = Pairs::kAlways};
      const Plan always = c.attention.plan(c.shape, options);
      options.pairs = Pairs::kNever;
      const Plan never = c.attention.plan(c.shape, options);
      CHECK(scores_by_pairs(always));
      CHECK(!scores_by_pairs(never));
      CHECK(pools_by_pairs(always));
      CHECK(!pools_by_pairs(never));
      CHECK(!same_bits(run_plan(always, c.inputs()), run_plan(never, c.inputs())));
    }
    // Not where keys are met in chunks, by lanes or by rows, nor where there is no panel of keys or no pair of terms.
    PlanOptions options{.target = target, .pairs = Pairs::kAlways};
    options.path = "dot/decode";
    const Plan decode = c.attention.plan({.num_queries = 4, .num_keys = 150, .query_size = 32}, options);
    CHECK(!scores_by_pairs(decode));
    CHECK(!pools_by_pairs(decode));
    options.path = "dot/fused";
    const Plan chunks = c.attention.plan({.num_queries = 4, .num_keys = 1500, .query_size = 32}, options);
    CHECK(!scores_by_pairs(chunks));
    CHECK(!pools_by_pairs(chunks));
    CHECK(!scores_by_pairs(c.attention.plan({.num_queries = 97, .num_keys = 1, .query_size = 32}, options)));
    CHECK(!scores_by_pairs(c.attention.plan({.num_queries = 97, .num_keys = 150, .query_size = 11}, options)));
    CHECK(!scores_by_pairs(c.attention.plan({.num_queries = 97, .num_keys = 150, .query_size = 129}, options)));
    CHECK(!scores_by_pairs(GaussianAttention().plan({.num_queries = 97, .num_keys = 150, .query_size = 32}, options)));
  });
}

TEST_CASE("pairs: pooling goes by them in the fused path of every layer, whose bits differ then") {
  for (const Layer layer : {Layer::kAdditive, Layer::kGaussianHeads, Layer::kDotHeads}) {
    const LayerCase c(spec_of(layer));
    for_each_target([&](const Target& target) {
      PlanOptions options{.target = target, .path = tiled_paths(layer)[0], .pairs = Pairs::kAlways};
      const Plan always = c.attention.plan(c.shape, options);
      options.pairs = Pairs::kNever;
      const Plan never = c.attention.plan(c.shape, options);
      CHECK(pools_by_pairs(always));
      CHECK(!pools_by_pairs(never));
      CHECK(!same_bits(run_plan(always, c.inputs()), run_plan(never, c.inputs())));
    });
  }
}

TEST_CASE("pairs: pooling takes fewer keys than a block by them, too, where all rows see these") {
  CaseSpec spec = spec_of(Layer::kDot);
  spec.size = 8;  // whose scores are plain sums
  spec.num_keys = 66;
  spec.lens = Lens::kNone;
  const LayerCase c(spec);
  Shape larger = c.shape;
  larger.num_keys = 300;
  for_each_target([&](const Target& target) {
    PlanOptions options{.target = target, .path = "dot/fused", .pairs = Pairs::kAlways};
    const Plan always = c.attention.plan(larger, options);
    options.pairs = Pairs::kNever;
    const Plan never = c.attention.plan(larger, options);
    CHECK(!scores_by_pairs(always));
    CHECK(!same_bits(run_plan(always, c.inputs()), run_plan(never, c.inputs())));
  });
}

TEST_CASE("pairs: never means plain sums, of projections, too") {
  CaseSpec spec = spec_of(Layer::kMultiHead);
  spec.size = spec.num_hiddens = 96;
  const LayerCase c(spec);
  for_each_target([&](const Target& target) {
    PlanOptions options{.target = target, .pairs = Pairs::kNever};
    const Plan never = c.attention.plan(c.shape, options);
    options.pairs = Pairs::kWhereFaster;
    const Plan faster = c.attention.plan(c.shape, options);
    check_within(run_plan(never, c.inputs()).output, {}, c.truth(), c.bound(c.truth()));
    const bool differs =
        this_cpu().adds_beside_products() && kernels::linear_rows_kernels(target.id()).has_registers_for_pairs;
    CHECK(same_bits(run_plan(never, c.inputs()), run_plan(faster, c.inputs())) == !differs);
    CHECK((never.explain().find("unless plain sums are asked for") != std::string::npos) == differs);
  });
}

}  // namespace attend::tests
