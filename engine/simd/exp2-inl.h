// 2^(s - m) for scores s in exponents of two and a whole number m, without ever forming s - m: what is rounded away is
// then measured from s alone, and m costs nothing.
#if defined(ATTEND_SIMD_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_EXP2_INL_H_
#undef ATTEND_SIMD_EXP2_INL_H_
#else
#define ATTEND_SIMD_EXP2_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Adding it rounds to a whole number and leaves that in the low bits, biased by 126 = 127 - 1 as the exponent of a
// float: the scale below is 2^(k - m - 1), which is encoded as 0 where 2^(k - m) would be the least normal number.
static constexpr float kExp2Magic = 0x1.8p23f + 126.0f;
// Up to here magic - m and magic + (s - m) keep a spacing of 1, for s - m from -126 to 128.
static constexpr float kExp2MostShift = 0x1p21f;

// 2^(s - m) for |m| <= kExp2MostShift, m whole, s - m < 128; shift = kExp2Magic - m, low = m - 126. 0 where s is below
// m
// - 125.5, for -inf too; NaN for NaN.
//
//     k = round(s)     r = s - k, exact, |r| <= 1/2     2^(s - m) = 2^(k - m) 2^r
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2Shifted(D d, V s, V shift, V low) {
#if HWY_ARCH_X86 && !ATTEND_TARGET_IS_EMULATED
  s = hn::Max(low, s);  // maxps returns its second operand when either is NaN
#else
  s = hn::IfThenElse(hn::Lt(s, low), low, s);
#endif
  const V shifted = hn::Add(s, shift);
  const hn::RebindToSigned<D> di;
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  const V r = hn::Sub(s, hn::Sub(shifted, shift));

  // As tools/fit_exp.py fits, for 2^r instead of exp(r), doubled: relative error 1.6e-8; 2^0 is exactly 1.
  V p = hn::Set(d, 0x1.41fbbap-12f);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.5f3e54p-9f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.3b2d4cp-6f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.c6aee8p-4f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.ebfbdcp-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.62e43p+0f));
  p = hn::MulAdd(p, r, hn::Set(d, 2.0f));
  return hn::Mul(p, scale);
}

}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SIMD_EXP2_INL_H_
