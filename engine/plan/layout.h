// The last step of planning: where everything lies in a workspace, and in prepared keys.
#ifndef ATTEND_PLAN_LAYOUT_H_
#define ATTEND_PLAN_LAYOUT_H_

#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Sizes the workspace for the chosen tiles, and the memory of prepared keys.
void lay_out_workspace(PlanImpl& plan);
void lay_out_prepared(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_LAYOUT_H_
