// Which tier an additive score begins with, by whose CPU it is, and that plans say so.
#include "engine/plan/score_tier_rules.h"

#include <string>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/for_each_target.h"
#include "tests/support/layer_cases.h"

namespace attend::tests {
namespace {

using detail::first_score_tier;
using kernels::ScoreTier;

TEST_CASE("score tiers: three terms per division come first where vectors are divided fast") {
  constexpr Cpu kZen4{.is_amd = true, .has_avx512 = true, .l1_bytes = 32u << 10};
  constexpr Cpu kZen5{.is_amd = true, .has_avx512 = true, .l1_bytes = 48u << 10};
  constexpr Cpu kHiddenZen4{.is_amd = true, .l1_bytes = 32u << 10, .l2_bytes = 1u << 20};  // shows no AVX-512
  constexpr Cpu kZen3{.is_amd = true, .l1_bytes = 32u << 10, .l2_bytes = 512u << 10};
  constexpr Cpu kIntel{.has_avx512 = true, .l1_bytes = 48u << 10};
  kernels::AdditiveScoreKernels kernels{};
  kernels.lanes = 16;
  for (const Cpu& cpu : {kZen4, kZen5}) CHECK(first_score_tier(kernels, cpu) == ScoreTier::kThree);
  for (const Cpu& cpu : {kZen3, kIntel, Cpu{}}) CHECK(first_score_tier(kernels, cpu) == ScoreTier::kEight);
  kernels.lanes = 8;
  for (const Cpu& cpu : {kZen4, kHiddenZen4}) CHECK(first_score_tier(kernels, cpu) == ScoreTier::kThree);
  for (const Cpu& cpu : {kZen5, kZen3, kIntel, Cpu{}}) CHECK(first_score_tier(kernels, cpu) == ScoreTier::kEight);
  kernels.lanes = 4;
  for (const Cpu& cpu : {kZen4, kHiddenZen4, kZen5}) CHECK(first_score_tier(kernels, cpu) == ScoreTier::kEight);
}

TEST_CASE("score tiers: plans say so where ranges decide") {
  for_each_target([](const Target& target) {
    const bool three = first_score_tier(kernels::additive_score_kernels(target.id()), this_cpu()) == ScoreTier::kThree;
    const LayerCase c({.layer = Layer::kAdditive});
    const auto says_so = [&](const PlanOptions& options) {
      return c.attention.plan(c.shape, options).explain().find("three terms per division") != std::string::npos;
    };
    CHECK(says_so({.target = target}) == three);
    CHECK_FALSE(says_so({.target = target, .score_tier = attend::ScoreTier::kThree}));
    CHECK_FALSE(says_so({.target = target, .path = "additive/rational"}));
    CHECK(says_so({.target = target, .pairs = Pairs::kNever}) == three);
    CHECK_FALSE(says_so({.target = target, .pairs = Pairs::kNever, .parts = Parts::kNever}));
  });
}

}  // namespace
}  // namespace attend::tests
