// How long products by bfloat16 parts take.
#ifndef ATTEND_TESTS_SUPPORT_TILES_H_
#define ATTEND_TESTS_SUPPORT_TILES_H_

#include "attend/target.h"
#include "engine/kernels/kernel_set.h"

namespace attend::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kIsSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kIsSanitized = false;
#endif

// Whether a target's tiles are in memory and sanitized, where a layer's tests would take minutes. The kernels' own do
// not: tests/kernels/tile_parts_test.cc, linear_parts_test.cc.
inline bool parts_take_long(const Target& target) {
  return kIsSanitized && !kernels::kernel_set(target.id()).tile_parts.has_tiles;
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_TILES_H_
