// The first step of planning.
#ifndef ATTEND_PLAN_FACTS_H_
#define ATTEND_PLAN_FACTS_H_

#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Fills in the facts of a plan whose layer, shape and options are set. Throws Error for what does not fit.
void establish_facts(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_FACTS_H_
