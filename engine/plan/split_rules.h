// Who does what: who projects keys, and which work items the heads, queries and keys of a run are cut into. The only
// choices that depend on the number of threads; no result does.
#ifndef ATTEND_PLAN_SPLIT_RULES_H_
#define ATTEND_PLAN_SPLIT_RULES_H_

#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Whether additive keys are projected beforehand or by the workers that pool them, with the reason. Tiles must be
// chosen.
void choose_projection(PlanImpl& plan);

// The work items, with the reason. Comes after choose_projection.
void choose_split(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_SPLIT_RULES_H_
