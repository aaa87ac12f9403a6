// Which path: the candidates that fit, and of them what the caller asks for, a profile has measured or the rules say.
#ifndef ATTEND_PLAN_PATH_RULES_H_
#define ATTEND_PLAN_PATH_RULES_H_

#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Chooses the path, with its reason, what tiles are wanted of it, and pairs of terms as a profile has them. Throws
// Error for a path that does not fit, and for tiles or tiers that the path does not have. Facts and kernels must be
// established.
void choose_path(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_PATH_RULES_H_
