// Which tiles go by bfloat16 parts, that plans say so, and what has no parts. That the contract holds for them:
// products_test.cc.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "engine/base/cpus.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"
#include "tests/support/run.h"

namespace attend::tests {
namespace {

constexpr const char* kTiled[] = {"dot/fused", "dot/materialised"};

CaseSpec spec_of(Layer layer) {
  return {.layer = layer,
          .num_queries = 70,
          .num_keys = 150,
          .size = 40,
          .value_size = 24,
          .parts = Parts::kAlways,
          .seed = 311};
}

bool goes_by_parts(const Plan& plan) { return plan.explain().find("by bfloat16 parts, where") != std::string::npos; }

}  // namespace

TEST_CASE("parts: tiles go by them where they are asked for, and plans say so") {
  const LayerCase c(spec_of(Layer::kDot));
  for_each_target([&](const Target& target) {
    for (const char* path : kTiled) {
      PlanOptions options{.target = target, .path = path, .parts = Parts::kAlways};
      const Plan always = c.attention.plan(c.shape, options);
      options.parts = Parts::kNever;
      const Plan never = c.attention.plan(c.shape, options);
      CHECK(goes_by_parts(always));
      CHECK(!goes_by_parts(never));
      CHECK(!same_bits(run_plan(always, c.inputs()), run_plan(never, c.inputs())));
    }
    PlanOptions options{.target = target, .parts = Parts::kAlways};
    options.path = "dot/decode";
    CHECK(!goes_by_parts(c.attention.plan({.num_queries = 4, .num_keys = 150, .query_size = 32}, options)));
    options.path = "dot/fused";
    CHECK(!goes_by_parts(c.attention.plan({.num_queries = 4, .num_keys = 1500, .query_size = 32}, options)));
    // Asked for both, parts are taken; for pairs alone, pairs, whatever the CPU.
    options.pairs = Pairs::kAlways;
    CHECK(goes_by_parts(c.attention.plan(c.shape, options)));
    options.parts = Parts::kWhereFaster;
    CHECK(!goes_by_parts(c.attention.plan(c.shape, options)));
  });
}

TEST_CASE("parts: they are faster where the CPU and the target have tiles, and rows are many") {
  for_each_target([&](const Target& target) {
    const bool has_tiles = this_cpu().has_tiles && target.name().starts_with("AVX3");
    const auto faster = [&](std::int64_t queries, std::int64_t keys, std::int64_t size) {
      return goes_by_parts(DotAttention().plan({.num_queries = queries, .num_keys = keys, .query_size = size},
                                               {.target = target, .path = "dot/fused"}));
    };
    CHECK(faster(512, 512, 64) == has_tiles);
    CHECK(!faster(1, 512, 64));
    CHECK(!faster(512, 16, 64));
    CHECK(!faster(512, 512, 8));
  });
}

// The kernel takes at most 128 keys at a time, however many a tile is to have: the same bits then.
TEST_CASE("parts: tiles of more keys than the kernel takes at a time") {
  for (const Lens lens : {Lens::kNone, Lens::kPerQuery}) {
    CaseSpec spec = spec_of(Layer::kDotHeads);
    spec.num_keys = 700;
    spec.lens = lens;
    const LayerCase c(spec);
    for_each_target([&](const Target& target) {
      PlanOptions options = c.plan_options();
      options.target = target;
      options.path = "dot/fused";
      options.tile_keys = 128;
      const RunResult expected = run_plan(c.attention.plan(c.shape, options), c.inputs());
      for (const std::int64_t tile_keys : {256, 512, 1024}) {
        CAPTURE(tile_keys);
        options.tile_keys = tile_keys;
        CHECK(same_bits(run_plan(c.attention.plan(c.shape, options), c.inputs()), expected));
      }
    });
  }
}

// Numbers that have no parts, or none that are exact: each goes the plain way by itself.
TEST_CASE("parts: infinite, huge and tiny values among others") {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const Layer layer : {Layer::kDotHeads, Layer::kGaussianHeads}) {
    for (const float odd : {kInf, -kInf, kNaN, 0x1p65f, 0x1p-70f, 0x1p-140f, 0.0f}) {
      CAPTURE(odd);
      LayerCase c(spec_of(layer));
      // Of keys in the first, second and last tile of 32.
      const auto row = static_cast<std::size_t>(c.spec.value_size);
      for (const std::size_t j : {std::size_t{3}, std::size_t{40}, std::size_t{149}}) {
        for (std::size_t n = 0; n < row; ++n) c.values.data[j * row + n] = odd;
      }
      if (std::isfinite(odd)) {
        check_truth(c);
        continue;
      }
      // Rows that see them come out as without parts.
      for_each_target([&](const Target& target) {
        for (const char* path : kTiled) {
          PlanOptions options = c.plan_options();
          options.target = target;
          options.path = path;
          const RunResult by_parts = run_plan(c.attention.plan(c.shape, options), c.inputs());
          options.parts = Parts::kNever;
          const RunResult without = run_plan(c.attention.plan(c.shape, options), c.inputs());
          for (std::size_t i = 0; i < without.output.size(); ++i) {
            const float expected = without.output[i], result = by_parts.output[i];
            if (std::isfinite(expected)) {
              REQUIRE(std::abs(result - expected) <= 1e-5f);
            } else {
              REQUIRE((std::isnan(expected) ? std::isnan(result) : result == expected));
            }
          }
        }
      });
    }
  }
}

TEST_CASE("parts: queries and keys beyond 2^64, whose scores are finite") {
  LayerCase c(spec_of(Layer::kDotHeads));
  const auto size = static_cast<std::size_t>(c.spec.size);
  // One number of a key is large where all queries are small, and one of a query where all keys are.
  for (std::size_t i = 0; i < c.queries.data.size(); i += size) c.queries.data[i] *= 0x1p-70f;
  c.keys.data[5 * size] = 0x1p70f;
  for (std::size_t i = 1; i < c.keys.data.size(); i += size) c.keys.data[i] *= 0x1p-70f;
  c.queries.data[7 * size + 1] = -0x1p69f;
  check_truth(c);
}

}  // namespace attend::tests
