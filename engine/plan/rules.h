// The second step of planning: every choice, and why.
#ifndef ATTEND_PLAN_RULES_H_
#define ATTEND_PLAN_RULES_H_

#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Chooses path, tiles and the split into work items from the facts, each with its reason. Throws Error for a path,
// tiles or tiers that are asked for and do not fit.
void apply_rules(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_RULES_H_
