#include "engine/plan/score_tier_rules.h"

#include <cstddef>

namespace attend::detail {

static_assert(static_cast<int>(ScoreTier::kEight) == static_cast<int>(kernels::ScoreTier::kEight) &&
              static_cast<int>(ScoreTier::kFour) == static_cast<int>(kernels::ScoreTier::kFour) &&
              static_cast<int>(ScoreTier::kThree) == static_cast<int>(kernels::ScoreTier::kThree) &&
              static_cast<int>(ScoreTier::kTwo) == static_cast<int>(kernels::ScoreTier::kTwo) &&
              static_cast<int>(ScoreTier::kOne) == static_cast<int>(kernels::ScoreTier::kOne) &&
              static_cast<int>(ScoreTier::kRational) == static_cast<int>(kernels::ScoreTier::kRational));

// By one division, eight terms take 22 multiplications and multiply-adds, by three 16, which is less in all where a
// division takes less than three of them, as on Zen 4 and Zen 5. By one and by three, additive_score/*_prepared_eight
// and _three, ps per element: AVX3, EPYC (Zen 4) m128_n512_u256 53.9 and 49.6, m1_n100_u256 65 and 62; EPYC (Zen 5)
// 30.1 and 28.3, 40.5 and 39.8; AVX2, EPYC (Zen 4) without AVX-512 78.5 and 67.6, 89 and 80, Zen 5 not measured.
// Intel's CPUs divide more slowly, so that eight terms beat four (kernels/factored_score-inl.h).
kernels::ScoreTier first_score_tier(const kernels::AdditiveScoreKernels& kernels, const Cpu& cpu) {
  const std::size_t bytes = kernels.lanes * sizeof(float);  // of a vector
  const bool divides_fast = bytes == 64 || (bytes == 32 && !cpu.is_zen5());
  return divides_fast && cpu.adds_beside_products() ? kernels::ScoreTier::kThree : kernels::ScoreTier::kEight;
}

void choose_first_tier(PlanImpl& plan) {
  // Without pairs and parts, a target's results have the same bits on any CPU (attend/plan.h).
  const bool any_cpu = plan.options.pairs == Pairs::kNever && plan.options.parts == Parts::kNever;
  if (!plan.factored || any_cpu) return;
  plan.first_tier = first_score_tier(plan.kernels->additive_score, this_cpu());
  if (plan.first_tier == kernels::ScoreTier::kThree && plan.options.score_tier == ScoreTier::kByRange) {
    plan.reasons.push_back(
        {"scores", "three terms per division where eight or four would do: divisions cost this CPU little"});
  }
}

}  // namespace attend::detail
