// Sizes, tiles, groups of queries, passes and chunks of keys: how much of a problem is at work at a time, by path.
#ifndef ATTEND_PLAN_TILE_RULES_H_
#define ATTEND_PLAN_TILE_RULES_H_

#include <cstddef>

#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Bytes of materialised scores a worker may hold at a time: a quarter of a 1 MiB share of L2.
inline constexpr std::size_t kMaterialisedBytes = 256 * 1024;
// The register kernel's rows; row tiles are multiples of it.
inline constexpr std::size_t kRowStep = 6;

// Sizes that every path shares. The path must be chosen.
void choose_sizes(PlanImpl& plan);

// The path's tiles, with their reasons. Sizes must be chosen.
void choose_tiles(PlanImpl& plan);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_TILE_RULES_H_
