#ifndef ATTEND_PLAN_LAYOUT_H_
#define ATTEND_PLAN_LAYOUT_H_

#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Sizes the workspace for the chosen tiles, and the memory of prepared keys.
void lay_out_workspace(PlanImpl& plan);
void lay_out_prepared(PlanImpl& plan);

// Bytes of a worker's part of the workspace for the tiles chosen so far, if it projects keys itself: all but its
// window.
std::size_t worker_bytes_beside_window(PlanImpl plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_LAYOUT_H_
