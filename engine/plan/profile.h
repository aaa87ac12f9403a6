// How a plan finds its entry in a profile, and which tiles may be asked for.
#ifndef ATTEND_PLAN_PROFILE_H_
#define ATTEND_PLAN_PROFILE_H_

#include <cstdint>
#include <string>

#include "attend/planner.h"
#include "engine/plan/plan_impl.h"

namespace attend::detail {

// Tiles that may be asked for. Key tiles divide the chunks of keys that are pooled side by side (1024) and the keys of
// a level of accumulators, and hold whole panels and whole blocks of the tile product (128).
inline constexpr std::int64_t kMaxTileQueries = 1024, kMinTileKeys = 128, kMaxTileKeys = 1024;

// What is wrong with a tile, as a message says it after the name and the value; empty: nothing.
std::string tile_queries_fault(std::int64_t tile_queries);
std::string tile_keys_fault(std::int64_t tile_keys);

// The words that name the problem of a plan in a profile: all that may make another choice the faster one. Its facts
// must be established.
std::string problem_text(const PlanImpl& plan);

// "where-faster", "never", "always".
const char* pairs_word(Pairs pairs);

// "12.3": three digits, no unit.
std::string microseconds_text(double microseconds);

}  // namespace attend::detail

#endif  // ATTEND_PLAN_PROFILE_H_
