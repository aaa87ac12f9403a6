// Which of the paths of a dot product: facts in, a path and its reason out. For path_rules.cc, which takes whole rows
// of scores instead of fused tiles where attention weights are asked for.
#ifndef ATTEND_PLAN_DOT_PATH_H_
#define ATTEND_PLAN_DOT_PATH_H_

#include <string>

#include "engine/plan/plan_impl.h"

namespace attend::detail {

// What dot/lanes takes at a time of the query heads that share a key-value head: all, or a group, of some heads or of
// queries of one.
struct LaneGroupSize {
  std::size_t heads, queries;
};
LaneGroupSize lane_group_size(const PlanImpl& plan);

// Whether the path can serve the problem, as fast or not; few enough rows, or keys, that is, for kDecode and kLanes.
bool dot_path_fits(const PlanImpl& plan, Pooling pooling);

// The one that the measurements speak for, and why. Facts and kernels must be established.
Pooling preferred_dot_path(const PlanImpl& plan);
std::string why_preferred(const PlanImpl& plan, Pooling pooling);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_DOT_PATH_H_
