// The passes over one row of scores that both softmax kernels are made of. Rows may have any alignment and length;
// whole vectors, then one tail through LoadTail / StoreTail.
#if defined(ATTEND_KERNELS_SOFTMAX_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_SOFTMAX_ROW_INL_H_
#undef ATTEND_KERNELS_SOFTMAX_ROW_INL_H_
#else
#define ATTEND_KERNELS_SOFTMAX_ROW_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <limits>

#include "engine/simd/compat-inl.h"
#include "engine/simd/math-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// max_j s_j; -inf for n = 0. NaN scores may be dropped or win, as the target's Max does: ExpAndSum brings them back.
template <class D>
HWY_INLINE float RowMax(D d, const float* HWY_RESTRICT s, size_t n) {
  using V = hn::Vec<D>;
  const size_t N = hn::Lanes(d);
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  // Four chains: Max has a latency of 4 cycles and two loads arrive per cycle.
  V max0 = hn::Set(d, kLowest), max1 = max0, max2 = max0, max3 = max0;
  size_t j = 0;
  for (; j + 4 * N <= n; j += 4 * N) {
    max0 = hn::Max(max0, hn::LoadU(d, s + j));
    max1 = hn::Max(max1, hn::LoadU(d, s + j + N));
    max2 = hn::Max(max2, hn::LoadU(d, s + j + 2 * N));
    max3 = hn::Max(max3, hn::LoadU(d, s + j + 3 * N));
  }
  for (; j + N <= n; j += N) max0 = hn::Max(max0, hn::LoadU(d, s + j));
  if (j < n) max1 = hn::Max(max1, simd::LoadTail(d, s + j, n - j, kLowest));
  return simd::HorizontalMax(d, hn::Max(hn::Max(max0, max1), hn::Max(max2, max3)));
}

// What is subtracted from the scores before exp. -inf means that no score was above -inf: with 0 in its place they
// weigh exp(-inf - 0) = 0, where -inf - -inf would be NaN, and a NaN that Max dropped stays NaN.
HWY_INLINE float ShiftForMax(float max) { return max == -std::numeric_limits<float>::infinity() ? 0.0f : max; }

// p_j = exp(s_j - shift), in place or not; returns sum_j p_j. A NaN score makes its p and the sum NaN; so does +inf,
// whose shift is +inf.
//
// Four vectors are added to one, and that one to a compensated sum: 7 additions per 4 vectors, beside some 60
// operations for exp, and the error no longer depends on n (70000 equal terms on one lane would be wrong by 1e-4 in a
// plain sum).
template <class D>
HWY_INLINE double ExpAndSum(D d, const float* s, float* p, size_t n, float shift) {
  using V = hn::Vec<D>;
  const size_t N = hn::Lanes(d);
  const V max = hn::Set(d, shift);
  V sum = hn::Zero(d), lost = hn::Zero(d);
  size_t j = 0;
  for (; j + 4 * N <= n; j += 4 * N) {
    const V p0 = simd::Exp(d, hn::Sub(hn::LoadU(d, s + j), max));
    const V p1 = simd::Exp(d, hn::Sub(hn::LoadU(d, s + j + N), max));
    const V p2 = simd::Exp(d, hn::Sub(hn::LoadU(d, s + j + 2 * N), max));
    const V p3 = simd::Exp(d, hn::Sub(hn::LoadU(d, s + j + 3 * N), max));
    hn::StoreU(p0, d, p + j);
    hn::StoreU(p1, d, p + j + N);
    hn::StoreU(p2, d, p + j + 2 * N);
    hn::StoreU(p3, d, p + j + 3 * N);
    simd::CompensatedAdd(d, hn::Add(hn::Add(p0, p1), hn::Add(p2, p3)), sum, lost);
  }
  for (; j + N <= n; j += N) {
    const V p0 = simd::Exp(d, hn::Sub(hn::LoadU(d, s + j), max));
    hn::StoreU(p0, d, p + j);
    simd::CompensatedAdd(d, p0, sum, lost);
  }
  if (j < n) {
    const V tail = simd::LoadTail(d, s + j, n - j, -std::numeric_limits<float>::infinity());
    // -inf - +inf is -inf, and -inf - NaN is NaN in a row that is NaN already: the lanes beyond n add nothing new.
    const V p0 = simd::Exp(d, hn::Sub(tail, max));
    simd::StoreTail(p0, d, p + j, n - j);
    simd::CompensatedAdd(d, p0, sum, lost);
  }
  return simd::HorizontalSum(d, sum, lost);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_SOFTMAX_ROW_INL_H_
