// How long products by bfloat16 parts take.
#ifndef ATTEND_TESTS_SUPPORT_TILES_H_
#define ATTEND_TESTS_SUPPORT_TILES_H_

#include "attend/target.h"
#include "engine/kernels/kernel_set.h"
#include "tests/support/sanitized.h"

namespace attend::tests {

// Whether a target's tiles are in memory and sanitized, where a layer's tests would take minutes. The kernels' own do
// not: tests/kernels/tile_parts_test.cc, linear_parts_test.cc.
inline bool parts_take_long(const Target& target) {
  return ATTEND_IS_SANITIZED != 0 && !kernels::kernel_set(target.id()).tile_parts.has_tiles;
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_TILES_H_
