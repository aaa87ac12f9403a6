// Whether scores and pooling of tiles go by bfloat16 parts (kernels/tile_parts.h): facts in, a choice and its reason
// out.
#ifndef ATTEND_PLAN_PART_RULES_H_
#define ATTEND_PLAN_PART_RULES_H_

#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Whether they do, in tiles of all keys of a head, with kernels whose CPU has tiles or not. The path is looked at only
// to see whether whole rows of scores are kept.
bool tiles_go_by_parts(const PlanImpl& plan, bool has_tiles);

// Once the path is chosen.
void choose_parts(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_PART_RULES_H_
