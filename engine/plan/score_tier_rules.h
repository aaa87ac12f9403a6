// Which score tiers an additive score chooses from by range: facts in, a choice and its reason out.
#ifndef ATTEND_PLAN_SCORE_TIER_RULES_H_
#define ATTEND_PLAN_SCORE_TIER_RULES_H_

#include "engine/base/cpus.h"
#include "engine/kernels/additive_score.h"
#include "engine/plan/plan_impl.h"

namespace attend::detail {

// The fastest tier on such a CPU; those before it are left out.
kernels::ScoreTier first_score_tier(const kernels::AdditiveScoreKernels& kernels, const Cpu& cpu);

// Once the path is chosen.
void choose_first_tier(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_SCORE_TIER_RULES_H_
