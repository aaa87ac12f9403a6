// A run of a plan: binds the views, projects rows, pools heads, projects the result.
#ifndef ATTEND_RUN_RUN_PLAN_H_
#define ATTEND_RUN_RUN_PLAN_H_

#include <cstddef>

#include "attend/executor.h"
#include "attend/plan.h"
#include "engine/plan/plan_impl.h"
#include "engine/run/bind.h"

namespace attend::detail {

// Plan::run behind its checks of the workspace: binds the views, then maps rows, pools heads and maps the result, each
// phase one parallel loop.
// prepared: null, or the keys that were prepared for this run.
void run_plan(const PlanImpl& plan, const Inputs& inputs, const PreparedView* prepared, const Outputs& outputs,
              std::byte* workspace, Executor& executor);

// Plan::prepare and Plan::append likewise: packs keys behind those that prepared.lens() counts, and counts them.
// keys: bound before. Throws Error if oneDNN failed or had no memory: `prepared` then holds nothing of use.
void prepare_keys(const PlanImpl& plan, const BoundKeys& keys, const PreparedView& prepared, std::byte* workspace,
                  Executor& executor);

// Tiles per score tier that the workspace has counted.
TierCounts tier_counts(const PlanImpl& plan, const std::byte* workspace);

}  // namespace attend::detail

#endif  // ATTEND_RUN_RUN_PLAN_H_
