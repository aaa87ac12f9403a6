// Sizes, tiles, groups of queries, passes and chunks of keys: how much of a problem is at work at a time, by path.
#ifndef ATTEND_PLAN_TILE_RULES_H_
#define ATTEND_PLAN_TILE_RULES_H_

#include <cstddef>

#include "engine/kernels/tile_product.h"
#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Bytes of materialised scores a worker may hold at a time, of as many rows as fit. By arithmetic: a quarter of a 1 MiB
// share of L2, beside the keys and values that pass. dot/b1_h12_m512_n512_d64_weights is within it by 48 rows; others:
// attend plan --layer dot --shape 1,512,512,64 --num-heads 12 --attention-weights --tune.
inline constexpr std::size_t kMaterialisedBytes = 256 * 1024;
// The fewest rows of them, however long: those that the register kernel takes at a time.
inline constexpr std::size_t kMinMaterialisedRows = kernels::kRowsPerStep;

// Whether keys are pooled in chunks whose results are merged. The path must be chosen, fused or materialised.
bool pools_in_chunks(const PlanImpl& plan);

// Sizes that every path shares. The path must be chosen.
void choose_sizes(PlanImpl& plan);

// The path's tiles, with their reasons. Sizes must be chosen.
void choose_tiles(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_TILE_RULES_H_
