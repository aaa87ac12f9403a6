// One step of the online softmax over a tile of scores, and the division that ends it. The recurrence is in
// softmax_tile.h.
#if defined(ATTEND_KERNELS_SOFTMAX_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_SOFTMAX_TILE_INL_H_
#undef ATTEND_KERNELS_SOFTMAX_TILE_INL_H_
#else
#define ATTEND_KERNELS_SOFTMAX_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/kernels/panel-inl.h"
#include "engine/kernels/softmax_row-inl.h"
#include "engine/kernels/softmax_tile.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// l of a row: a vector of sums, and one of what their rounding lost (simd::CompensatedAdd). They stay vectors from tile
// to tile. A plain float would not do for thousands of keys: tiles of equal sums all round the same way (128 tiles of
// 512 equal p = 0.985: 1.9e-6).
static constexpr size_t kSumVectors = 2;

// Numbers of a row, by the same instructions as vectors.
using One = hn::CappedTag<float, 1>;

// m for a row whose largest score is max: the next whole number. With a scale it is not exact beyond 2^24, and a little
// less is taken: then the largest score's own exponent is not below m and it does not weigh 0 (the exponents are kept
// from overflowing, softmax_row-inl.h). For the same reason scale max may overflow.
HWY_INLINE float WholeExponent(float max, float scale) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max();
  const One d;
  const float m = hn::GetLane(hn::Round(hn::Mul(hn::Set(d, max), hn::Set(d, scale))));
  const float magnitude = m < 0.0f ? -m : m;
  if (magnitude <= kMaxRise) return 0.0f;  // near enough, and costs least
  if (!(magnitude >= 0x1p24f) || scale == 1.0f) return m;
  if (magnitude == kInf) return max == m ? m : m < 0.0f ? -kLargest : kLargest;
  return m - magnitude * 0x1p-22f;
}

// The same where the largest p is to be about 2^exponent, as far as m is exact then: 0, which costs least, where that
// is a half to four times as large.
HWY_INLINE float WholeExponent(float max, float scale, float exponent) {
  const One d;
  const float m = hn::GetLane(hn::Round(hn::Mul(hn::Set(d, max), hn::Set(d, scale)))) - exponent;
  if (m >= -1 && m <= 2) return 0.0f;
  return m > -0x1p20f && m < 0x1p20f ? m : WholeExponent(max, scale);  // not for NaN
}

// 2^e for a whole number e <= 0, 0 below -126; NaN for none.
HWY_INLINE float PowerOfTwo(float e) {
  const One d;
  return hn::GetLane(simd::Exp2(d, hn::Set(d, e)));
}

// +0, told by its bits: comparisons of floats would take the ports that the exponentials want.
HWY_INLINE bool IsZero(float x) {
  std::uint32_t bits;
  hwy::CopyBytes<sizeof(bits)>(&x, &bits);
  return bits == 0;
}

// row_k *= factor, whole aligned vectors.
template <class D>
HWY_INLINE void ScaleAccumulators(D d, float* HWY_RESTRICT row, size_t n, float factor) {
  const hn::Vec<D> f = hn::Set(d, factor);
  for (size_t k = 0; k < n; k += hn::Lanes(d)) hn::Store(hn::Mul(hn::Load(d, row + k), f), d, row + k);
}

// m rises to the maximum, and l and o are multiplied by c; unless the little less that is taken is no more than m was.
// Seldom, so kept out of the loop.
template <class D>
HWY_NOINLINE void RaiseMax(D d, const SoftmaxTileArgs& args, size_t r, float max) {
  const float before = args.row_max[r];
  const float m = args.power_exponents == nullptr ? WholeExponent(max, args.scale)
                                                  : WholeExponent(max, args.scale, args.power_exponents[r]);
  if (m <= before) return;
  args.row_max[r] = m;
  // While m is -inf, l is 0 or NaN, which any c leaves as it is, and o may not have been written yet.
  if (before == -std::numeric_limits<float>::infinity()) return;
  const float c = PowerOfTwo(before - m);
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
  ScaleAccumulators(d, args.row_sums + r * kSumVectors * hn::Lanes(d), kSumVectors * hn::Lanes(d), c);
  ScaleAccumulators(d, args.accumulators + row * args.accumulators_stride, args.accumulator_columns, c);
}

// What rows of a step have in common. No vectors as members: floats that become such where they are used.
template <class D>
struct SoftmaxTileRows {
  float inverse_scale;
  bool has_max, is_aimed;

  HWY_INLINE explicit SoftmaxTileRows(const SoftmaxTileArgs& args)
      : inverse_scale(1.0f / args.scale),
        // The last vector's padding is in the product's maxima.
        has_max(args.max_lanes != nullptr && args.num_columns % hn::Lanes(D()) == 0),
        is_aimed(args.power_exponents != nullptr) {}

  // m rises, if it has to for scores of which `max` holds the largest.
  HWY_INLINE void TakeMax(D d, const SoftmaxTileArgs& args, size_t r, hn::Vec<D> max) const {
    using V = hn::Vec<D>;
    const V highest = hn::Set(d, kMaxRise * inverse_scale), lowest = hn::Set(d, -kMaxRise * inverse_scale);
    float* m = args.row_max + r;
    // Comparisons with NaN are false: p and l become NaN without their help.
    if (IsZero(*m)) {
      if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Gt(max, highest)))) RaiseMax(d, args, r, simd::HorizontalMax(d, max));
    } else if (*m == -std::numeric_limits<float>::infinity() && !is_aimed && hn::AllFalse(d, hn::Gt(max, highest)) &&
               !hn::AllFalse(d, hn::Ge(max, lowest))) {
      *m = 0.0f;  // what RaiseMax would find, without the horizontal maximum
    } else if (!hn::AllFalse(d, hn::Gt(max, hn::Set(d, (*m + kMaxRise) * inverse_scale)))) {
      RaiseMax(d, args, r, simd::HorizontalMax(d, max));
    }
  }

  // Most rows of most tiles have 128 scores, so what is done per row counts as much as what is done per vector: one
  // comparison tells that m stays, and for m = 0 with scale 1, the usual case, nothing is made of m at all.
  HWY_INLINE void Step(D d, const SoftmaxTileArgs& args, size_t r) const {
    using V = hn::Vec<D>;
    const size_t N = hn::Lanes(d);
    const float scale = args.scale;
    float* scores = args.scores + static_cast<std::ptrdiff_t>(r) * args.scores_stride;
    const size_t len = static_cast<size_t>(args.lens[r]);
    if (len < args.num_columns) std::memset(scores + len, 0, (args.num_columns - len) * sizeof(float));
    if (len == 0) return;  // m, l and o stay

    TakeMax(d, args, r,
            has_max && len == args.num_columns ? hn::Load(d, args.max_lanes + r * N) : RowMaxLanes(d, scores, len));
    const float* m = args.row_max + r;
    float* sums = args.row_sums + r * kSumVectors * N;
    V sum = hn::Load(d, sums), lost = hn::Load(d, sums + N);
    if (ATTEND_EXP2_IS_LOOKED_UP && scale == 1.0f && IsZero(*m)) {  // all constants
      ExponentialsAndSum<Exponents::kDirect>(d, scores, scores, len, ExponentOfRow(1.0f, 1.0f, 0.0f), DoNothing(), sum,
                                             lost);
    } else {
      ExponentialsAndSum(d, scores, scores, len, ExponentOfRow(scale, inverse_scale, *m), DoNothing(), sum, lost);
    }
    hn::Store(sum, d, sums);
    hn::Store(lost, d, sums + N);
  }
};

template <class D>
HWY_INLINE void SoftmaxTileStep(D d, const SoftmaxTileArgs& args) {
  const SoftmaxTileRows<D> rows(args);
  for (size_t r = 0; r < args.num_rows; ++r) rows.Step(d, args, r);
}

template <class D>
HWY_INLINE void SoftmaxTotalSums(D d, const float* HWY_RESTRICT row_sums, size_t num_rows, double* totals) {
  const size_t N = hn::Lanes(d);
  for (size_t r = 0; r < num_rows; ++r) {
    const float* sums = row_sums + r * kSumVectors * N;
    totals[r] = simd::HorizontalSum(d, hn::Load(d, sums), hn::Load(d, sums + N));
  }
}

template <Exponents kKind, class D>
HWY_INLINE void WriteWeights(D d, const float* HWY_RESTRICT s, size_t n, const RowExponent& row, float factor,
                             float* HWY_RESTRICT weights) {
  const size_t N = hn::Lanes(d);
  const hn::Vec<D> f = hn::Set(d, factor);
  size_t j = 0;
  for (; j + N <= n; j += N) {
    hn::StoreU(hn::Mul(Exponential<kKind>(d, hn::LoadU(d, s + j), row), f), d, weights + j);
  }
  if (j < n) {
    const hn::Vec<D> tail = simd::LoadTail(d, s + j, n - j, 0.0f);
    simd::StoreTail(hn::Mul(Exponential<kKind>(d, tail, row), f), d, weights + j, n - j);
  }
}

template <class D>
HWY_INLINE void SoftmaxWeights(D d, const WeightsArgs& args) {
  const float inverse_scale = 1.0f / args.scale;
  for (size_t r = 0; r < args.num_rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    const float* scores = args.scores + row * args.scores_stride;
    float* weights = args.weights + row * args.weights_stride;
    const double l = args.row_sum[r];
    const size_t len = l == 0.0 ? 0 : static_cast<size_t>(args.lens[r]);
    const RowExponent exponent = ExponentOfRow(args.scale, inverse_scale, args.row_max[r]);
    const float factor = static_cast<float>(1.0 / l);
    if (exponent.kind == Exponents::kClamped) {
      WriteWeights<Exponents::kClamped>(d, scores, len, exponent, factor, weights);
    } else {
      WriteWeights<Exponents::kScaled>(d, scores, len, exponent, factor, weights);
    }
    if (len < args.num_columns) std::memset(weights + len, 0, (args.num_columns - len) * sizeof(float));
  }
}

template <class D>
HWY_INLINE void NormaliseRows(D d, const NormaliseArgs& args) {
  const size_t N = hn::Lanes(d), n = args.num_columns;
  for (size_t r = 0; r < args.num_rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    const float* HWY_RESTRICT powers = args.powers + row * args.powers_stride;
    float* HWY_RESTRICT weights = args.weights + row * args.weights_stride;
    const double l = args.row_sum[r];
    const size_t len = l == 0.0 ? 0 : static_cast<size_t>(args.lens[r]);
    const hn::Vec<D> factor = hn::Set(d, static_cast<float>(1.0 / l));
    size_t j = 0;
    // Read before anything is written: EightExponentials says why.
    for (; j + 4 * N <= len; j += 4 * N) {
      const hn::Vec<D> p0 = hn::Load(d, powers + j), p1 = hn::Load(d, powers + j + N);
      const hn::Vec<D> p2 = hn::Load(d, powers + j + 2 * N), p3 = hn::Load(d, powers + j + 3 * N);
      hn::StoreU(hn::Mul(p0, factor), d, weights + j);
      hn::StoreU(hn::Mul(p1, factor), d, weights + j + N);
      hn::StoreU(hn::Mul(p2, factor), d, weights + j + 2 * N);
      hn::StoreU(hn::Mul(p3, factor), d, weights + j + 3 * N);
    }
    for (; j + N <= len; j += N) hn::StoreU(hn::Mul(hn::Load(d, powers + j), factor), d, weights + j);
    if (j < len) simd::StoreTail(hn::Mul(simd::LoadTail(d, powers + j, len - j), factor), d, weights + j, len - j);
    // By hand: dot/b8_h12_m512_n512_d64_lens_weights on AVX3, Zen 4, 2 % faster than by memset.
    for (j = len; j + N <= n; j += N) hn::StoreU(hn::Zero(d), d, weights + j);
    if (j < n) simd::StoreTail(hn::Zero(d), d, weights + j, n - j);
  }
}

// o / l, inverse = 1 / l: with FMA, a product and what is left of it (Markstein 1990, IBM J. Res. Dev. 34(1), theorem
// 4): as exact as a division but for rare last bits, for 3 of its 16 cycles per vector.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Quotient(D /*d*/, V o, V l, V inverse) {
#if HWY_NATIVE_FMA
  const V quotient = hn::Mul(o, inverse);
  const V left = hn::NegMulAdd(quotient, l, o);
  return hn::IfThenElse(hn::Eq(left, left), hn::MulAdd(left, inverse, quotient), quotient);  // NaN where o is infinite
#else
  (void)inverse;
  return hn::Div(o, l);
#endif
}

// output = o / l. Not the product with 1 / l, which would be rounded twice: the mean of equal numbers is that number.
template <class D>
HWY_INLINE void SoftmaxFinishRows(D d, const FinishRowsArgs& args) {
  const size_t N = hn::Lanes(d);
  for (size_t r = 0; r < args.num_rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    const float* HWY_RESTRICT o = args.accumulators + row * args.accumulators_stride;
    float* HWY_RESTRICT output = args.output + row * args.output_stride;
    const double l = args.row_sum == nullptr ? 1.0 : args.row_sum[r];
    if (l == 0.0) {  // no key, or none above -inf
      std::memset(output, 0, args.num_columns * sizeof(float));
      continue;
    }
    const hn::Vec<D> divisor = hn::Set(d, static_cast<float>(l));
    const hn::Vec<D> inverse = hn::Set(d, 1.0f / static_cast<float>(l));
    size_t k = 0;
    for (; k + N <= args.num_columns; k += N) {
      hn::StoreU(Quotient(d, hn::Load(d, o + k), divisor, inverse), d, output + k);
    }
    // Rows of o are padded to whole vectors, rows of the output are not.
    if (k < args.num_columns) {
      simd::StoreTail(Quotient(d, hn::Load(d, o + k), divisor, inverse), d, output + k, args.num_columns - k);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_SOFTMAX_TILE_INL_H_
