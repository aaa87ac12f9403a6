// Loads and stores of the last n < Lanes(d) elements of a row. They touch p[0] to p[n - 1] and nothing else, so rows
// may end at an unmapped page, and another thread may own what follows. With Highway 1.0.6 or later as the floor, loads
// become LoadN; StoreN takes vmaskmovps on AVX2.
//
// The trap avoided: MaskedLoad in 1.0.3 is an aligned load of a whole vector on SSSE3 and SSE4, and BlendedStore there
// reads and rewrites a whole vector. HWY_MEM_OPS_MIGHT_FAULT tells: it is 0 where the instruction set masks memory
// accesses itself (AVX3, SVE, RVV). AVX2 says 1 because of 8 and 16 bit lanes only; vmaskmovps is safe to load ours.
#if defined(ATTEND_SIMD_TAIL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_TAIL_INL_H_
#undef ATTEND_SIMD_TAIL_INL_H_
#else
#define ATTEND_SIMD_TAIL_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "engine/simd/compat-inl.h"

// Sanitizers do not know the masks of vmaskmovps; where Highway detects them, it says 1 on AVX3 too. SCALAR says 0, but
// its MaskedLoad reads p[0] for n = 0 too (AddressSanitizer build of tail_test). Evaluated where used.
#ifndef ATTEND_MASKED_MEMORY_IS_SAFE
#define ATTEND_MASKED_MEMORY_IS_SAFE \
  (!ATTEND_TARGET_IS_EMULATED && (!HWY_MEM_OPS_MIGHT_FAULT || (HWY_TARGET == HWY_AVX2 && !HWY_IS_ASAN && !HWY_IS_MSAN)))
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes i < n are p[i], the others fill. n <= Lanes(d); p need not be aligned.
template <class D>
HWY_INLINE hn::Vec<D> LoadTail(D d, const float* HWY_RESTRICT p, size_t n, float fill) {
#if ATTEND_MASKED_MEMORY_IS_SAFE
  const hn::Mask<D> valid = hn::FirstN(d, n);
  return hn::IfThenElse(valid, hn::MaskedLoad(valid, d, p), hn::Set(d, fill));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(hn::Set(d, fill), d, lanes);
  for (size_t i = 0; i < n; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#endif
}

// The same with zeros beyond n.
template <class D>
HWY_INLINE hn::Vec<D> LoadTail(D d, const float* HWY_RESTRICT p, size_t n) {
#if ATTEND_MASKED_MEMORY_IS_SAFE
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#else
  return LoadTail(d, p, n, 0.0f);
#endif
}

#if HWY_MEM_OPS_MIGHT_FAULT && !ATTEND_TARGET_IS_EMULATED
// n < Lanes(d): half of the lanes or none, then of what is left half.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreHalves(V v, D d, float* HWY_RESTRICT p, size_t n) {
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    auto rest = hn::LowerHalf(half, v);
    const size_t taken = n & hn::Lanes(half);
    if (taken != 0) {
      hn::StoreU(rest, half, p);
      rest = hn::UpperHalf(half, v);
    }
    StoreHalves(rest, half, p + taken, n - taken);
  } else {
    (void)v, (void)d, (void)p, (void)n;  // nothing is left
  }
}

// Not inlined: that would take registers from loops around it.
template <class D, class V = hn::Vec<D>>
HWY_NOINLINE void StorePart(V v, D d, float* p, size_t n) {
  StoreHalves(v, d, p, n);
}
#endif

// p[i] = lane i for i < n. n <= Lanes(d); p need not be aligned. AVX2 goes by halves, too: vmaskmovps is microcode on
// AMD's CPUs where it writes. EPYC (Zen 4) without AVX-512, with it and without, additive_score/m1_n100_u256/AVX2,
// whose last four keys are half a vector, 11.9 and 10.9 us; SSE4, lane by lane and by halves, 35.6 and 33.9.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreTail(V v, D d, float* HWY_RESTRICT p, size_t n) {
#if ATTEND_TARGET_IS_EMULATED
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < n; ++i) p[i] = lanes[i];
#elif HWY_MEM_OPS_MIGHT_FAULT
  if (n == hn::Lanes(d)) return hn::StoreU(v, d, p);
  StorePart(v, d, p, n);
#else
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SIMD_TAIL_INL_H_
