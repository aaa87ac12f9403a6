// Exp, Tanh and a compensated sum for float vectors. Largest errors over all floats, in spacings of floats at the true
// value (tests/simd/math_test.cc with ATTEND_SCAN_STEP=1; without, it scans every 499th):
//
//             with FMA    without
//     Exp     0.90 ULP    1.17 ULP
//     Tanh    3.32 ULP    3.93 ULP    (absolute 2.0e-7 and 2.4e-7; without FMA, results may reach 1 + 2^-23)
#if defined(ATTEND_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_MATH_INL_H_
#undef ATTEND_SIMD_MATH_INL_H_
#else
#define ATTEND_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// exp(x) for every float. NaN gives NaN, +inf gives +inf, exp(0) is exactly 1, overflow begins where it should
// (x > 88.7228). Results below 2^-125.5 (x < -86.99) are flushed to +0, so that no subnormal number, slow on most CPUs,
// comes out. Neighbours come out in order but for a ULP, also where the flush and the overflow begin.
//
//     n = round(x / ln 2)     r = x - n ln 2, |r| <= ln(2) / 2     exp(x) = 2^n exp(r) = 2^(n-1) 2 exp(r)
//
// 2^(n-1) rather than 2^n, because then n = 128 (x from 88.38) still has a finite scale; the factor 2 is in the
// coefficients.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  // In the range kept, n runs from -126 (scale 2^-127 is encoded as 0: the flush) to 129 (scale encoded as infinity).
  x = ClampKeepNaN(d, x, hn::Set(d, -87.4f), hn::Set(d, 89.4f));

  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. The 126 = 127 - 1 biases it as the exponent
  // of 2^(n-1) wants, so that a shift makes the scale. NaN leaves a scale of any value here, and NaN times that is NaN.
  const V magic = hn::Set(d, 0x1.8p23f + 126.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0x1.715476p+0f), magic);  // 1 / ln 2
  const V n = hn::Sub(shifted, magic);
  const hn::RebindToSigned<D> di;
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));

  // Cody and Waite: ln 2 = high + low, high has 15 significant bits and |n| < 2^8, hence n * high is exact, and so is
  // the first subtraction, with or without FMA. low = ln 2 - high rounded: what is left out is below 2^-44.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);

  // tools/fit_exp.py, doubled: degree 6, relative error 3.1e-9 (degree 5: 1e-7, which is more than a ULP).
  V two_exp_r = hn::Set(d, 0x1.6a23ccp-9f);
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, 0x1.123a2p-6f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, 0x1.5558f2p-4f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, 0x1.555492p-2f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, 0x1.fffffcp-1f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, 2.0f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, 2.0f));
  return hn::Mul(two_exp_r, scale);
}

// tanh(x) for every float. NaN gives NaN, tanh(-x) is -tanh(x) to the bit, tanh(+-0) is +-0, subnormal x comes back
// unchanged. One division.
//
// By the half angle: with tanh(x/2) ~ N / Q, N = x P(y) / 2, Q = 1 + w, y = x^2,
//
//     tanh(x) = 2 (N/Q) / (1 + (N/Q)^2) = 2 N Q / (Q^2 + N^2) = n (1 + w) / (1 + (w (2 + w) + n^2 / 4)),   n = 2 N
//
// d log tanh(x) = sech(x) d log tanh(x/2): errors of N and Q, from the fit and from rounding alike, fade out where tanh
// saturates, so that degrees 2 and 3 are enough. The plain rational x P(y) / Q(y) needs degrees 4 and 4, costs three
// operations less, and was wrong by up to 4.1 ULP (5.8 without FMA) just there. 1 is kept apart from w, and x from the
// rest of n: near zero, rounding then comes from four operations only.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  // tanh rounds to 1 from 9.0109 on. This is the first float there at which the lines below give exactly 1, with FMA
  // and without; a neighbour may give 1 - 2^-24.
  x = ClampKeepNaN(d, x, hn::Set(d, -0x1.20594ep+3f), hn::Set(d, 0x1.20594ep+3f));  // 9.0109015
  const V y = hn::Mul(x, x);

  // tools/fit_tanh.py: relative error of tanh 7.5e-9.
  V w = hn::MulAdd(hn::Set(d, 0x1.4a0f88p-20f), y, hn::Set(d, 0x1.3c52f6p-10f));
  w = hn::MulAdd(w, y, hn::Set(d, 0x1.cf4ab6p-4f));
  w = hn::Mul(w, y);
  const V p = hn::MulAdd(hn::Set(d, 0x1.df5448p-14f), y, hn::Set(d, 0x1.e7d5a6p-6f));
  const V n = hn::MulAdd(hn::Mul(x, y), p, x);

  const V numerator = hn::MulAdd(n, w, n);
  const V w_part = hn::MulAdd(w, w, hn::Add(w, w));
  const V n_part = hn::MulAdd(hn::Mul(n, hn::Set(d, 0.25f)), n, w_part);
  return hn::Div(numerator, hn::Add(n_part, hn::Set(d, 1.0f)));
}

// sum += x, and lost takes what rounding adds too much: the true sum is sum - lost (Kahan 1965, CACM 8(1) p. 40; Higham
// 2002, section 4.3: the error stays below 2^-23 sum |x_i| however many terms). Four additions.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void CompensatedAdd(D /*d*/, V x, V& sum, V& lost) {
  const V corrected = hn::Sub(x, lost);
  const V next = hn::Add(sum, corrected);
  lost = hn::Sub(hn::Sub(next, sum), corrected);
  sum = next;
}

}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SIMD_MATH_INL_H_
