// Whether the scores and the pooling of tiles go by pairs of terms (kernels/tile_pairs.h, value_pairs.h): facts in, a
// choice and its reason out.
#ifndef ATTEND_PLAN_PAIR_RULES_H_
#define ATTEND_PLAN_PAIR_RULES_H_

#include "engine/base/cpus.h"
#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Whether tiles that keep all keys of a head together score by pairs, on such a CPU. Known before the path is.
bool tiles_score_by_pairs(const PlanImpl& plan, const Cpu& cpu);
// The same of pooling. Known once tiles are chosen.
bool tiles_pool_by_pairs(const PlanImpl& plan, const Cpu& cpu);

// Whether so many rows of a projection do, if its weights are fit for it and the kernels have the registers.
bool map_may_go_by_pairs(const PlanImpl& plan, const matmul::Linear& map, double rows, const Cpu& cpu);

// Whether scores, pooling or a projection of the plan do.
bool goes_by_pairs(const PlanImpl& plan);

// Once tiles are chosen.
void choose_pairs(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_PAIR_RULES_H_
