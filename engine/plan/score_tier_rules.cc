#include "engine/plan/score_tier_rules.h"

namespace attend::detail {

static_assert(static_cast<int>(ScoreTier::kEight) == static_cast<int>(kernels::ScoreTier::kEight) &&
              static_cast<int>(ScoreTier::kFour) == static_cast<int>(kernels::ScoreTier::kFour) &&
              static_cast<int>(ScoreTier::kThree) == static_cast<int>(kernels::ScoreTier::kThree) &&
              static_cast<int>(ScoreTier::kTwo) == static_cast<int>(kernels::ScoreTier::kTwo) &&
              static_cast<int>(ScoreTier::kOne) == static_cast<int>(kernels::ScoreTier::kOne) &&
              static_cast<int>(ScoreTier::kRational) == static_cast<int>(kernels::ScoreTier::kRational));

// By one division, eight terms take 22 multiplications and multiply-adds, by three 16. A division of 512 bits keeps
// Zen 4's multipliers as long as two multiplications, which makes 24 against 22, and the next one waiting as long as
// six; CPUs of others let it wait for 16 and more. EPYC (Zen 4), additive_score/m128_n512_u256_prepared_eight and
// _three on AVX3: 53.9 and 49.6 ps per element. Zen 5 multiplies twice as fast and has not been measured.
kernels::ScoreTier first_score_tier(const kernels::AdditiveScoreKernels& kernels, const Cpu& cpu) {
  const bool has_512_bits = kernels.lanes * sizeof(float) == 64;
  return has_512_bits && cpu.adds_beside_products() && !cpu.is_zen5() ? kernels::ScoreTier::kThree
                                                                      : kernels::ScoreTier::kEight;
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
