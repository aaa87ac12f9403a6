// Sums across lanes, four vectors at a time.
#if defined(ATTEND_SIMD_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_SUMS_INL_H_
#undef ATTEND_SIMD_SUMS_INL_H_
#else
#define ATTEND_SIMD_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "engine/simd/compat-inl.h"
#include "engine/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if ATTEND_TRANSPOSES_IN_REGISTERS
// In each 128-bit block: what that block of a, b, c and e adds up to.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SumsOfBlocks(D d, V a, V b, V c, V e) {
  const hn::Repartition<uint64_t, D> pairs;
  const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                 hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
}

// The sum of a vector's 128-bit blocks.
template <class D>
HWY_INLINE hn::Vec<hn::Full128<float>> SumOfBlocks(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    (void)d;
    return v;
  } else {
    const hn::Half<D> half;
    return SumOfBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
#endif

// to[i] = the sum of the i-th vector's lanes, each by the same tree of additions; `to` is aligned to four floats.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreSumsOfFour(D d, V a, V b, V c, V e, float* HWY_RESTRICT to) {
#if ATTEND_TRANSPOSES_IN_REGISTERS
  hn::Store(SumOfBlocks(d, SumsOfBlocks(d, a, b, c, e)), hn::Full128<float>(), to);
#else
  to[0] = hn::GetLane(hn::SumOfLanes(d, a));
  to[1] = hn::GetLane(hn::SumOfLanes(d, b));
  to[2] = hn::GetLane(hn::SumOfLanes(d, c));
  to[3] = hn::GetLane(hn::SumOfLanes(d, e));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
