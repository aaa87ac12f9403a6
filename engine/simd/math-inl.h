// Exp, Exp2, Tanh and a compensated sum for float vectors. Largest errors over all floats, in spacings of floats at the
// true value (tests/simd/math_test.cc with ATTEND_SCAN_STEP=1; without, it scans every 499th):
//
//             AVX-512     with FMA    without
//     Exp     0.90 ULP    0.90 ULP    1.17 ULP
//     Exp2    1.73 ULP    1.16 ULP    2.17 ULP    (AVX2; 1.95 where nothing is looked up. Exp2Scaled: of an exponent
//                                                 that is rounded once more, or never)
//     Tanh    2.98 ULP    2.98 ULP    2.64 ULP    (absolute 1.7e-7 and 1.6e-7)
#if defined(ATTEND_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_MATH_INL_H_
#undef ATTEND_SIMD_MATH_INL_H_
#else
#define ATTEND_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "engine/simd/compat-inl.h"

// AVX-512 looks up floats in two registers, 32 of them, in one instruction, AVX2 in one register, 8. Evaluated where
// used.
#ifndef ATTEND_EXP2_IS_LOOKED_UP
#define ATTEND_EXP2_IS_LOOKED_UP (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// exp(kFactor x) for |kFactor x| <= 86.9; NaN gives NaN. kFactor: a power of two, which costs nothing and changes no
// rounding.
//
//     n = round(x / ln 2)     r = x - n ln 2, |r| <= ln(2) / 2     exp(x) = 2^n exp(r) = 2^(n-1) 2 exp(r)
//
// 2^(n-1) rather than 2^n, because then n = 128 (x from 88.38, for Exp) still has a finite scale; the factor 2 is in
// the coefficients.
template <int kFactor, class D, class V = hn::Vec<D>>
HWY_INLINE V ExpInRange(D d, V x) {
  constexpr float f = kFactor, f2 = f * f, f4 = f2 * f2;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. The 126 = 127 - 1 biases it as the exponent
  // of 2^(n-1) wants, so that a shift makes the scale. NaN leaves a scale of any value here, and NaN times that is NaN.
  const V magic = hn::Set(d, 0x1.8p23f + 126.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, f * 0x1.715476p+0f), magic);  // 1 / ln 2
  const V n = hn::Sub(shifted, magic);
  const hn::RebindToSigned<D> di;
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));

  // Cody and Waite: ln 2 = high + low, high has 15 significant bits and |n| < 2^8, hence n * high is exact, and so is
  // the first subtraction, with or without FMA. low = ln 2 - high rounded: what is left out is below 2^-44.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f / f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f / f), r);

  // tools/fit_exp.py, doubled: degree 6, relative error 3.1e-9 (degree 5: 1e-7, which is more than a ULP). By Estrin's
  // scheme, a multiplication more and a shorter chain: 2 % faster on AVX3 and SSE4, 6 to 12 % slower on AVX2.
  V two_exp_r = hn::Set(d, f4 * f2 * 0x1.6a23ccp-9f);
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, f4 * f * 0x1.123a2p-6f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, f4 * 0x1.5558f2p-4f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, f2 * f * 0x1.555492p-2f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, f2 * 0x1.fffffcp-1f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, f * 2.0f));
  two_exp_r = hn::MulAdd(two_exp_r, r, hn::Set(d, 2.0f));
  return hn::Mul(two_exp_r, scale);
}

// exp(x) for every float. NaN gives NaN, +inf gives +inf, exp(0) is exactly 1, overflow begins where it should
// (x > 88.7228). Results below 2^-125.5 (x < -86.99) are flushed to +0, so that no subnormal number, slow on most CPUs,
// comes out. Neighbours come out in order but for a ULP, also where the flush and the overflow begin.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  // In the range kept, n runs from -126 (scale 2^-127 is encoded as 0: the flush) to 129 (scale encoded as infinity).
  return ExpInRange<1>(d, ClampKeepNaN(d, x, hn::Set(d, -87.4f), hn::Set(d, 89.4f)));
}

// 2^x for softmax, which can do with 3 ULP (2e-7 of the value): degree 5 instead of Exp's 6, or 2 or 3 and a lookup,
// and no ln 2 to take off. tools/fit_exp.py --base 2, with --roots 32 for AVX-512, with --roots 8 --degree 3 for AVX2.
#if ATTEND_EXP2_IS_LOOKED_UP
// 2^(j / 2^kRootBits), less what the bits of j are where the whole part is to be: n and j are added in one go.
#if HWY_TARGET <= HWY_AVX3
static constexpr int kRootBits = 5;
alignas(64) static constexpr float kRootsOfTwo[32] = {
    0x1.0p+0f,      0x1.fd9b0ep-1f, 0x1.fb5586p-1f, 0x1.f9301ep-1f, 0x1.f72b84p-1f, 0x1.f54874p-1f, 0x1.f387a6p-1f,
    0x1.f1e9ep-1f,  0x1.f06fep-1f,  0x1.ef1a74p-1f, 0x1.edea64p-1f, 0x1.ece086p-1f, 0x1.ebfdaep-1f, 0x1.eb42b6p-1f,
    0x1.eab07ep-1f, 0x1.ea47ecp-1f, 0x1.ea09e6p-1f, 0x1.e9f75ep-1f, 0x1.ea1148p-1f, 0x1.ea589ap-1f, 0x1.eace54p-1f,
    0x1.eb737cp-1f, 0x1.ec4918p-1f, 0x1.ed503cp-1f, 0x1.ee89fap-1f, 0x1.eff77p-1f,  0x1.f199bep-1f, 0x1.f3720ep-1f,
    0x1.f5818ep-1f, 0x1.f7c974p-1f, 0x1.fa4afap-1f, 0x1.fd0766p-1f,
};
HWY_INLINE __m512 RootOfTwo(__m512i j) {
  return _mm512_permutex2var_ps(_mm512_load_ps(kRootsOfTwo), j, _mm512_load_ps(kRootsOfTwo + 16));
}
#else
static constexpr int kRootBits = 3;
alignas(32) static constexpr float kRootsOfTwo[8] = {
    0x1.0p+0f,      0x1.f72b84p-1f, 0x1.f06fep-1f,  0x1.ebfdaep-1f,
    0x1.ea09e6p-1f, 0x1.eace54p-1f, 0x1.ee89fap-1f, 0x1.f5818ep-1f,
};
HWY_INLINE __m256 RootOfTwo(__m256i j) { return _mm256_permutevar8x32_ps(_mm256_load_ps(kRootsOfTwo), j); }
#endif

// With x = n + j/32 + r, |r| <= 1/64: 2^x = 2^(n + j/32) 2^r, and a polynomial of degree 2 will do for 2^r; with j/8,
// degree 3. Adding 1.5 * 2^18 rounds to 32nds and leaves 32 n + j in the low bits, of which the lookup takes the last
// five. x below -126 gives 0: the mask costs one instruction, subnormal numbers would cost more, and far scores are
// common.
//
// Losers, softmax_tile_step with scale 1, on EPYC (Zen 4), where multiplications and comparisons share two of four
// units, additions take the others, and a step is bound by both: AVX3 takes 2.76 us for n512 and 0.77 for n128 (no
// scores were copied in then).
// - r = x - floor(x) by vreduceps, degree 5, 2^n by vscalefps: 3.54, 0.91, and 2.82 ULP.
// - sixteen roots in one register, degree 3: 3.05, 0.84.
// - (2^(n + j/32) r) p rather than 2^(n + j/32) (r p), for the shorter chain: 2.81, 0.78; and subnormal products.
// - degree 5 and no lookup, AVX2: 5.06 and 1.43 instead of 4.59 and 1.32, and 1.95 ULP.
static constexpr float kRootMagic = 0x1.8p23f / (1 << kRootBits);

// 2^(n + j/32 + r), 8 for 32 on AVX2, from r and `shifted`, whose low bits hold 32 n + j; 0 where s < lowest, NaN where
// s is NaN.
HWY_INLINE hn::Vec<hn::ScalableTag<float>> Exp2OfRootParts(hn::Vec<hn::ScalableTag<float>> shifted,
                                                           hn::Vec<hn::ScalableTag<float>> r,
                                                           hn::Vec<hn::ScalableTag<float>> s,
                                                           hn::Vec<hn::ScalableTag<float>> lowest) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  using V = hn::Vec<decltype(d)>;
  const auto bits = hn::BitCast(di, shifted);
  const V root{RootOfTwo(bits.raw)};
  const V scale = hn::BitCast(d, hn::Add(hn::BitCast(di, root), hn::ShiftLeft<23 - kRootBits>(bits)));
#if HWY_TARGET <= HWY_AVX3
  const V p = hn::Mul(hn::MulAdd(hn::Set(d, 0x1.ebfbep-3f), r, hn::Set(d, 0x1.62e584p-1f)), r);
  // Not less than, so that NaN stays.
  const __mmask16 kept = _mm512_cmp_ps_mask(s.raw, lowest.raw, _CMP_NLT_UQ);
  return V{_mm512_maskz_fmadd_ps(kept, p.raw, scale.raw, scale.raw)};
#else
  V p = hn::MulAdd(hn::Set(d, 0x1.c6900cp-5f), r, hn::Set(d, 0x1.ec0c24p-3f));
  p = hn::Mul(hn::MulAdd(p, r, hn::Set(d, 0x1.62e432p-1f)), r);
  return hn::IfThenZeroElse(hn::Lt(s, lowest), hn::MulAdd(p, scale, scale));
#endif
}
#endif

// With r = x - round(x) in [-1/2, 1/2], twice 2^r: as in ExpInRange, `shifted` holds the exponent less one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2OfParts(D d, V shifted, V r) {
  const hn::RebindToSigned<D> di;
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  V p = hn::MulAdd(hn::Set(d, 0x1.5bda8cp-9f), r, hn::Set(d, 0x1.3ce8b2p-6f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.c6b6d8p-4f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.ebf9c2p-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.62e42ap+0f));
  p = hn::MulAdd(p, r, hn::Set(d, 2.0f));
  return hn::Mul(p, scale);
}

#if ATTEND_EXP2_IS_LOOKED_UP
// 2^(s - m) for a whole number m and s - m <= 127: as fast as Exp2, and s - m is nowhere rounded, since magic - m is
// exact. offset and lowest come from ExponentAbove(m, 1). NaN gives NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2Above(D /*d*/, V s, V offset, V lowest) {
  const V shifted = hn::Add(s, offset);
  return Exp2OfRootParts(shifted, hn::Sub(s, hn::Sub(shifted, offset)), s, lowest);
}
#endif

// 1.5 * 2^23 rounds what is added to it to a whole number, and leaves it in the low bits; 126 as in ExpInRange.
static constexpr float kExponentMagic = 0x1.8p23f + 126.0f;

// 2^x for x <= 127. NaN gives NaN, whole numbers give exactly their powers; 0 below -126 with AVX-512 and AVX2, and
// from -125.5 downwards elsewhere, so that no subnormal number comes out.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
#if ATTEND_EXP2_IS_LOOKED_UP
  if constexpr (hn::MaxLanes(D()) == hn::MaxLanes(hn::ScalableTag<float>())) {
    return Exp2Above(d, x, hn::Set(d, kRootMagic), hn::Set(d, -126.0f));
  }
#endif
  x = MaxKeepNaN(d, x, hn::Set(d, -126.0f));
  const V magic = hn::Set(d, kExponentMagic);
  const V shifted = hn::Add(x, magic);
  return Exp2OfParts(d, shifted, hn::Sub(x, hn::Sub(shifted, magic)));
}

// How Exp2Scaled is told of m.
struct ScaledExponent {
  float offset, lowest;
};

// Whether scale * s is rounded only together with the subtraction of m: then weights are as exact for scores of a
// million as for scores around zero.
static constexpr bool kScalesExactly = HWY_NATIVE_FMA;

// m is a whole number of a magnitude below kMaxWholeExponent, scale > 0.
#if ATTEND_EXP2_IS_LOOKED_UP
static constexpr float kMaxWholeExponent = 0x1p16f;
#else
static constexpr float kMaxWholeExponent = 0x1p21f;
#endif
HWY_INLINE ScaledExponent ExponentAbove(float m, float inverse_scale) {
#if ATTEND_EXP2_IS_LOOKED_UP
  return {kRootMagic - m, (m - 125.9f) * inverse_scale};  // rounding must not let it fall below -126
#elif HWY_NATIVE_FMA
  return {kExponentMagic - m, (m - 126.0f) * inverse_scale};
#else
  (void)inverse_scale;
  return {-m, 0.0f};
#endif
}

// 2^(scale s - m) for scale s - m < 127; 0 where that is below -126 to -125.5, as Exp2. offset and lowest come from
// ExponentAbove(m, 1 / scale). NaN gives NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2Scaled(D d, V s, V scale, V offset, V lowest) {
  // One operation less than subtracting m and then rounding: magic - m is exact because m is a whole number, and so is
  // what comes out of it again.
#if ATTEND_EXP2_IS_LOOKED_UP
  (void)d;
  const V shifted = hn::MulAdd(s, scale, offset);
  return Exp2OfRootParts(shifted, hn::MulSub(s, scale, hn::Sub(shifted, offset)), s, lowest);
#elif HWY_NATIVE_FMA
  s = MaxKeepNaN(d, s, lowest);
  const V shifted = hn::MulAdd(s, scale, offset);
  return Exp2OfParts(d, shifted, hn::MulSub(s, scale, hn::Sub(shifted, offset)));
#else
  (void)lowest;
  return Exp2(d, hn::MulAdd(s, scale, offset));
#endif
}

// tanh(x) for every float. NaN gives NaN, tanh(-x) is -tanh(x) to the bit, tanh(+-0) is +-0, subnormal x comes back
// unchanged, and |tanh(x)| <= 1. One division.
//
// By the half angle: with tanh(x/2) ~ N / Q, n = 2 N = x (1 + y p), Q = 1 + w, y = x^2, for x >= 0
//
//     tanh(x) = 2 N Q / (Q^2 + N^2) = n Q / (n Q + (Q - N)^2) = n Q / (1 + (n Q + e (e + 2))),   e = Q - N - 1
//
// d log tanh(x) = sech(x) d log tanh(x/2): errors of N and Q, from the fit and from rounding alike, fade out where tanh
// saturates, so that degrees 2 and 3 are enough. So do the roundings of n Q, which stands above and below, and of e:
// d log tanh = (1 - tanh) (d log nQ - 2 d log(Q - N)). Two roundings of the denominator and the division's are left.
// Near zero, the denominator is 1 + little, and x is kept apart from the rest of n, and 1 from w = Q - 1.
//
// Losers; times of the loop of additive_rational, relative to this one, on AVX3 (Emerald Rapids) unless said otherwise:
// - Q^2 + N^2 = 1 + (w (2 + w) + n^2 / 4), no sign to take off: 1.00, on SSE4 0.95; 3.32 ULP, 3.93 without FMA.
// - (Q - N)^2 + n Q without splitting off 1: 0.95; 3.7 ULP below 0.55, where the rounding of Q - N counts twice.
// - H / (H + 1), H = (e^2x - 1) / 2, by a polynomial of degree 7 in x and two squarings: 1.02; 4.4 ULP. Of degree 8:
//   1.12. By the reduction of Exp: 1.10.
// - x P(y) / Q(y), of degrees 4 and 4: 4.1 ULP, 5.8 without FMA. Degrees 6 and 3 take 0.89.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  // tanh rounds to 1 from 9.0109 on. The lines below give exactly 1 from 8.687 to here at least, 1 ULP too much at
  // first.
  const V a = MinKeepNaN(d, hn::Abs(x), hn::Set(d, 9.2f));
  const V y = hn::Mul(a, a);

  // tools/fit_tanh.py --search: a fit, and luck with roundings. The plain fit gave 3.21 ULP.
  V w = hn::MulAdd(hn::Set(d, 0x1.52153p-20f), y, hn::Set(d, 0x1.3e8dbap-10f));
  w = hn::MulAdd(w, y, hn::Set(d, 0x1.cfa192p-4f));
  w = hn::Mul(w, y);
  const V p = hn::MulAdd(hn::Set(d, 0x1.e64026p-14f), y, hn::Set(d, 0x1.e930fp-6f));
  const V ay = hn::Mul(a, y);
  // n and n Q = a + (n - a + n w). Without FMA, the latter is rounded once instead of twice, for one addition more (3 %
  // on SSE4): the other way, no coefficients were found below 3.04 ULP. With FMA that would be 7 % slower.
#if HWY_NATIVE_FMA
  const V n = hn::MulAdd(ay, p, a);
  const V numerator = hn::MulAdd(n, w, n);
#else
  const V ayp = hn::Mul(ay, p);
  const V n = hn::Add(ayp, a);
  const V numerator = hn::Add(hn::MulAdd(n, w, ayp), a);
#endif
  const V e = hn::NegMulAdd(n, hn::Set(d, 0.5f), w);
  const V rest = hn::MulAdd(e, hn::Add(e, hn::Set(d, 2.0f)), numerator);
  return hn::CopySignToAbs(hn::Div(numerator, hn::Add(rest, hn::Set(d, 1.0f))), x);
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

// The same for x of any size beside sum, by three operations more (Knuth, The Art of Computer Programming 2, 4.2.2,
// theorem B). CompensatedAdd may lose half a spacing where x is larger.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void CompensatedAddOfAny(D /*d*/, V x, V& sum, V& lost) {
  const V next = hn::Add(sum, x);
  const V part = hn::Sub(next, sum);
  lost = hn::Sub(lost, hn::Add(hn::Sub(sum, hn::Sub(next, part)), hn::Sub(x, part)));
  sum = next;
}

}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SIMD_MATH_INL_H_
