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

#include "engine/kernels/panel-inl.h"
#include "engine/kernels/softmax_tile.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/math-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Online, m moves only when a tile's maximum exceeds it by more than this, so m is the maximum to within kMaxRise and
// p_j may reach 2^12.5: nothing overflows, and o / l, as 2^(e - m) / l, does not depend on m. It saves most
// multiplications of o by c, and most horizontal maxima: one comparison of lanes tells that nothing has risen so far.
static constexpr float kMaxRise = 12.0f;
// The largest exponent there is: where floats are 16 apart, m + kMaxRise is m + 16, and m does not rise to that.
static constexpr float kMaxExponent = 16.0f;

// max_j s_j by lanes, -inf where a lane has no score; HorizontalMax of it is the maximum. NaN scores may be dropped or
// win, as the target's Max does: the exponentials bring them back.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V RowMaxLanes(D d, const float* HWY_RESTRICT s, size_t n) {
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
  if (j + 2 * N <= n) {
    max0 = hn::Max(max0, hn::LoadU(d, s + j));
    max1 = hn::Max(max1, hn::LoadU(d, s + j + N));
    j += 2 * N;
  }
  if (j + N <= n) {
    max2 = hn::Max(max2, hn::LoadU(d, s + j));
    j += N;
  }
  if (j < n) max3 = hn::Max(max3, simd::LoadTail(d, s + j, n - j, kLowest));
  return hn::Max(hn::Max(max0, max1), hn::Max(max2, max3));
}

// How a row's exponentials are taken, from the fastest to the widest.
enum class Exponents {
  kDirect,   // AVX-512, AVX2: the scores are exponents themselves, scale = 1
  kScaled,   // scale s - m by multiplications and additions
  kClamped,  // from kMaxWholeExponent: what scale s - m rounds to may be anything, and is kept from overflowing
};

// For one row: p_j = 2^(scale s_j - m). Made once per row, used through Exponential.
struct RowExponent {
  Exponents kind = Exponents::kDirect;
  float scale = 1.0f, offset = 0.0f, lowest = 0.0f;
  float subtract = 0.0f;  // kClamped: p_j = 2^min(scale (s_j - subtract) + offset, kMaxExponent)
};

HWY_INLINE RowExponent ExponentOfRow(float scale, float inverse_scale, float m) {
  if (m == -std::numeric_limits<float>::infinity()) m = 0.0f;  // no score above -inf: all weigh 0
  if (m > -simd::kMaxWholeExponent && m < simd::kMaxWholeExponent) {
    const simd::ScaledExponent exponent = simd::ExponentAbove(m, inverse_scale);
    const bool direct = ATTEND_EXP2_IS_LOOKED_UP && scale == 1.0f;
    return {direct ? Exponents::kDirect : Exponents::kScaled, scale, exponent.offset, exponent.lowest};
  }
  return {Exponents::kClamped, scale, -m, 0.0f};
}

template <Exponents kKind, class D, class V = hn::Vec<D>>
HWY_INLINE V Exponential(D d, V s, const RowExponent& row) {
#if ATTEND_EXP2_IS_LOOKED_UP
  if constexpr (kKind == Exponents::kDirect) {
    return simd::Exp2Above(d, s, hn::Set(d, row.offset), hn::Set(d, row.lowest));
  }
#endif
  if constexpr (kKind == Exponents::kScaled) {
    return simd::Exp2Scaled(d, s, hn::Set(d, row.scale), hn::Set(d, row.offset), hn::Set(d, row.lowest));
  } else {
    s = hn::MulAdd(hn::Sub(s, hn::Set(d, row.subtract)), hn::Set(d, row.scale), hn::Set(d, row.offset));
    return simd::Exp2(d, simd::MinKeepNaN(d, s, hn::Set(d, kMaxExponent)));
  }
}

struct DoNothing {
  HWY_INLINE void operator()(size_t, size_t) const {}
};

// p_j of two vectors of scores, and of four; returns the sum of the vectors.
template <Exponents kKind, class D, class V = hn::Vec<D>>
HWY_INLINE V TwoExponentials(D d, const float* s, float* p, const RowExponent& row) {
  const size_t N = hn::Lanes(d);
  const V p0 = Exponential<kKind>(d, hn::LoadU(d, s), row);
  const V p1 = Exponential<kKind>(d, hn::LoadU(d, s + N), row);
  hn::StoreU(p0, d, p);
  hn::StoreU(p1, d, p + N);
  return hn::Add(p0, p1);
}
template <Exponents kKind, class D, class V = hn::Vec<D>>
HWY_INLINE V FourExponentials(D d, const float* s, float* p, const RowExponent& row) {
  const size_t N = hn::Lanes(d);
  const V sum = TwoExponentials<kKind>(d, s, p, row);
  return hn::Add(sum, TwoExponentials<kKind>(d, s + 2 * N, p + 2 * N, row));
}

// p_j of eight vectors, of which all are read before the first is written; the sums of the first and last four. Where p
// lies a little behind s, seen modulo 4096 bytes, as between large blocks of a heap, loads would wait for stores before
// them that only look like theirs: masked_softmax_rows/r4096_n1024_near on AVX3, Zen 4, 1.22 ms; with this 1.12, as
// _breaks with either. With 16 registers 2 % slower; in place, softmax_tile_step/r48_n128, 2 % slower as well.
template <Exponents kKind, class D, class V = hn::Vec<D>>
HWY_INLINE void EightExponentials(D d, const float* s, float* p, const RowExponent& row, V& sum0, V& sum1) {
  const size_t N = hn::Lanes(d);
  const V s0 = hn::LoadU(d, s), s1 = hn::LoadU(d, s + N);
  const V s2 = hn::LoadU(d, s + 2 * N), s3 = hn::LoadU(d, s + 3 * N);
  const V s4 = hn::LoadU(d, s + 4 * N), s5 = hn::LoadU(d, s + 5 * N);
  const V s6 = hn::LoadU(d, s + 6 * N), s7 = hn::LoadU(d, s + 7 * N);
  const auto four = [&](V v0, V v1, V v2, V v3, float* to) ATTEND_INLINE_ATTR {
    const V p0 = Exponential<kKind>(d, v0, row), p1 = Exponential<kKind>(d, v1, row);
    hn::StoreU(p0, d, to);
    hn::StoreU(p1, d, to + N);
    const V p2 = Exponential<kKind>(d, v2, row), p3 = Exponential<kKind>(d, v3, row);
    hn::StoreU(p2, d, to + 2 * N);
    hn::StoreU(p3, d, to + 3 * N);
    return hn::Add(hn::Add(p0, p1), hn::Add(p2, p3));
  };
  sum0 = four(s0, s1, s2, s3, p);
  sum1 = four(s4, s5, s6, s7, p + 4 * N);
}

// p_j of a row, in place or not; adds sum_j p_j to the compensated sum. A NaN score makes its p and the sum NaN.
//
// kPlain vectors, 8 or 4, are added to one, and that one to a compensated sum: 11 additions per 8 vectors, beside some
// 80 operations for the powers, and the error does not depend on n (70000 equal terms on one lane would be wrong by
// 1e-4 in a plain sum). With 4 it is 20 additions and a rounding less, which masked_softmax's 2e-7 needs: one weight
// near 1 and small ones in the same lane came to 2.4e-7.
//
// What is left of a row goes by four, two and one and not in a loop, whose end is mispredicted where other loops came
// in between, with the powers of the next row waiting. planner/b1_h8_m128_n64_d32 on AVX3, Zen 4: dot/fused 128 -> 114
// us. Where nothing comes in between, softmax_tile_step/r48_n112, it is 1.10 of the loop; _n64 0.89.
//
// On AVX2 eight go by two in a loop that stays one. EPYC (Zen 3), softmax_tile_step/*/AVX2: 64 to 128 columns 3 to 9 %
// less time than eight at once, 512 columns 1 to 4 % more; on SSE4 1 to 2 % more everywhere.
//
// meanwhile(j, count) is called before scores j to j + count - 1 have their turn, up to eight vectors: a place to
// prefetch what will be wanted. Nothing: DoNothing.
template <Exponents kKind, size_t kPlain = 8, class D, class Meanwhile, class V = hn::Vec<D>>
HWY_INLINE void ExponentialsAndSum(D d, const float* s, float* p, size_t n, const RowExponent& row,
                                   const Meanwhile& meanwhile, V& sum, V& lost) {
  const size_t N = hn::Lanes(d);
  size_t j = 0;
  for (; j + 8 * N <= n; j += 8 * N) {
    meanwhile(j, 8 * N);
    V sum0, sum1;
    if constexpr (kPlain == 4 && kVectorsPerPanel == 4) {
      EightExponentials<kKind>(d, s + j, p + j, row, sum0, sum1);
    } else if constexpr (kPlain == 8 && ATTEND_EXP2_IS_LOOKED_UP && kVectorsPerPanel == 2) {
      sum0 = TwoExponentials<kKind>(d, s + j, p + j, row);
      ATTEND_KEEP_LOOP
      for (size_t k = j + 2 * N; k < j + 8 * N; k += 2 * N) {
        sum0 = hn::Add(sum0, TwoExponentials<kKind>(d, s + k, p + k, row));
      }
      sum1 = hn::Zero(d);
    } else {
      sum0 = FourExponentials<kKind>(d, s + j, p + j, row);
      sum1 = FourExponentials<kKind>(d, s + j + 4 * N, p + j + 4 * N, row);
    }
    if constexpr (kPlain == 8) {
      simd::CompensatedAdd(d, hn::Add(sum0, sum1), sum, lost);
    } else {
      simd::CompensatedAddOfAny(d, sum0, sum, lost);
      simd::CompensatedAddOfAny(d, sum1, sum, lost);
    }
  }
  if (j == n) return;
  meanwhile(j, n - j);
  V rest = hn::Zero(d);  // of at most eight vectors, as above
  if (j + 4 * N <= n) {
    rest = FourExponentials<kKind>(d, s + j, p + j, row);
    j += 4 * N;
    if constexpr (kPlain == 4) {
      simd::CompensatedAddOfAny(d, rest, sum, lost);
      rest = hn::Zero(d);
    }
  }
  if (j + 2 * N <= n) {
    rest = hn::Add(rest, TwoExponentials<kKind>(d, s + j, p + j, row));
    j += 2 * N;
    if constexpr (kPlain == 4) {
      simd::CompensatedAddOfAny(d, rest, sum, lost);
      rest = hn::Zero(d);
    }
  }
  if (j + N <= n) {
    const V p0 = Exponential<kKind>(d, hn::LoadU(d, s + j), row);
    hn::StoreU(p0, d, p + j);
    rest = hn::Add(rest, p0);
    j += N;
  }
  if (j < n) {
    const V tail = simd::LoadTail(d, s + j, n - j, -std::numeric_limits<float>::infinity());
    // Lanes beyond n are 0, or NaN in a row that is NaN already (m = NaN, or +inf where -inf - inf is -inf): they add
    // nothing new.
    const V p0 = Exponential<kKind>(d, tail, row);
    simd::StoreTail(p0, d, p + j, n - j);
    rest = hn::Add(rest, p0);
  }
  if constexpr (kPlain == 8) {
    simd::CompensatedAdd(d, rest, sum, lost);
  } else {
    simd::CompensatedAddOfAny(d, rest, sum, lost);
  }
}

template <size_t kPlain = 8, class D, class Meanwhile, class V = hn::Vec<D>>
HWY_INLINE void ExponentialsAndSum(D d, const float* s, float* p, size_t n, const RowExponent& row,
                                   const Meanwhile& meanwhile, V& sum, V& lost) {
  if (ATTEND_EXP2_IS_LOOKED_UP && row.kind == Exponents::kDirect) {
    ExponentialsAndSum<Exponents::kDirect, kPlain>(d, s, p, n, row, meanwhile, sum, lost);
  } else if (HWY_LIKELY(row.kind == Exponents::kScaled)) {
    ExponentialsAndSum<Exponents::kScaled, kPlain>(d, s, p, n, row, meanwhile, sum, lost);
  } else {
    ExponentialsAndSum<Exponents::kClamped, kPlain>(d, s, p, n, row, meanwhile, sum, lost);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_SOFTMAX_ROW_INL_H_
