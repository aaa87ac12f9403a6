#ifndef ATTEND_RUN_RUN_PLAN_H_
#define ATTEND_RUN_RUN_PLAN_H_

#include <cstddef>

#include "attend/executor.h"
#include "attend/plan.h"
#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Plan::run behind its checks of the workspace: binds the views, then maps rows, pools heads and maps the result, each
// phase one parallel loop.
void run_plan(const PlanImpl& plan, const Inputs& inputs, const Outputs& outputs, std::byte* workspace,
              Executor& executor);

}  // namespace attend::detail

#endif  // ATTEND_RUN_RUN_PLAN_H_
