// How a family's getter reaches the code of a named target without Highway's global chosen target: through Highway's
// own list of a function's versions, so that targets of later Highways need no change here. Include it after
// foreach_target.h; use the macro once, within HWY_ONCE.
//
//     #if HWY_ONCE
//     PackKernels pack_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
//     #endif
// where each target's namespace holds PackKernels Kernels(), and the target is one that this build compiles.
#ifndef ATTEND_KERNELS_FOR_TARGET_H_
#define ATTEND_KERNELS_FOR_TARGET_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

namespace attend::kernels {

// What the target's version returns. The versions of an architecture are in the order of their bits, null where a
// target is not compiled; SCALAR and EMU128 belong to none and are the fallback.
template <class Getter, std::size_t num_versions>
auto call_version(const Getter (&versions)[num_versions], Getter fallback, std::int64_t target) {
  if ((target & (HWY_SCALAR | HWY_EMU128)) != 0) return fallback();
  constexpr int kFirstBit = HWY_HIGHEST_TARGET_BIT + 1 - static_cast<int>(num_versions);
  return versions[std::countr_zero(static_cast<std::uint64_t>(target)) - kFirstBit]();
}

}  // namespace attend::kernels

// Highway has no list where it has no vectors.
#ifdef HWY_CHOOSE_TARGET_LIST
#define ATTEND_VERSIONS(function) HWY_CHOOSE_TARGET_LIST(function)
#else
#define ATTEND_VERSIONS(function) nullptr
#endif

#define ATTEND_RETURN_FOR_TARGET(target, function)                                              \
  constexpr decltype(&HWY_STATIC_DISPATCH(function)) kVersions[] = {ATTEND_VERSIONS(function)}; \
  return ::attend::kernels::call_version(kVersions, HWY_CHOOSE_FALLBACK(function), target)

#endif  // ATTEND_KERNELS_FOR_TARGET_H_
