// Additive scores from exponentials: with A = e^2a, B = e^2b and t = 1 + A B,
//
//     tanh(a + b) = (t - 2) / t
//
// M U + N U exponentials replace M N U of them. Four terms share a division:
//
//     w0 tanh0 + w1 tanh1 = ((w0 + w1) t0 t1 - 2 w0 t1 - 2 w1 t0) / (t0 t1) = n01 / d01
//     n01/d01 + n23/d23   = (n01 d23 + n23 d01) / (d01 d23)
//
// Lanes run over keys, which stand in panels; queries are broadcast, kQueriesPerStep of them over each vector of B.
// Sixteen multiplications and additions and a division per four terms. bench: additive_score/*.
//
// Losers, ns per element on AVX3 (Emerald Rapids), this one 0.074: sum w - 2 sum w / t, two operations less, 0.066, but
// was wrong by up to 6.0e-7 sum|w| (equal terms, tanh near -1, where the quotients are twice as large as what they
// add); (w t - 2 w) / t term by term, two operations more, 0.082; an estimated reciprocal and one correction instead of
// each or of every second division, no faster (0.077, 0.080).
#if defined(ATTEND_KERNELS_FACTORED_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_FACTORED_SCORE_INL_H_
#undef ATTEND_KERNELS_FACTORED_SCORE_INL_H_
#else
#define ATTEND_KERNELS_FACTORED_SCORE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "engine/kernels/additive_score-inl.h"
#include "engine/kernels/additive_score.h"
#include "engine/kernels/panel-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/math-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Of each query, a sum of terms, a compensated sum and what it lost: 12 registers with four queries. Two or three were
// 4 % slower on AVX3; on AVX2, where four do not fit 16 registers, within 2 % of each other.
static constexpr size_t kQueriesPerStep = 4;

// Terms added plainly before a compensated addition. With 32, equal terms were wrong by 4.6e-7 sum|w_v| on SSE4; it
// would be 3 % faster.
static constexpr size_t kTermsPerFactoredBlock = 16;

// t = 1 + A B. At least 1, and NaN if A or B is. Free: t <= 1 + e^20, t^4 <= 5.6e34; up to 1 + e^22, t^4 is 1.7e38
// still. Clamped: A B <= e^172 overflows to infinity, which becomes 2^31 as well: tanh is wrong by 2^-30 = 9.4e-10
// there, and t^4 = 2^124.
template <ScoreTier kTier, class D, class V = hn::Vec<D>>
HWY_INLINE V Denominator(D d, V query_exp, V key_exp) {
  const V t = hn::MulAdd(query_exp, key_exp, hn::Set(d, 1.0f));
  if constexpr (kTier == ScoreTier::kClamped) {
    const V high = hn::Set(d, 0x1p31f);
#if HWY_ARCH_X86 && !ATTEND_TARGET_IS_EMULATED
    return hn::Min(high, t);  // minps returns its second operand when either is NaN, as in ClampKeepNaN
#else
    return hn::IfThenElse(hn::Gt(t, high), high, t);
#endif
  }
  return t;
}

// Numerator of w0 tanh0 + w1 tanh1 over the denominator d01 = t0 t1, with v = -2 w and c = w0 + w1. c comes first
// because c d01 and v1 t0 cancel where tanh is near -1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V PairNumerator(D /*d*/, V c, V d01, V v0, V v1, V t0, V t1) {
  return hn::MulAdd(v0, t1, hn::MulAdd(v1, t0, hn::Mul(c, d01)));
}

// Adds the terms of kTerms <= 4 hidden units to the sums of kRows queries. w: their six folded weights.
template <ScoreTier kTier, size_t kRows, size_t kTerms, class D, class V = hn::Vec<D>>
HWY_INLINE void AddTerms(D d, const float* HWY_RESTRICT query_exps, std::ptrdiff_t query_exps_stride,
                         const float* HWY_RESTRICT key_exps, size_t keys_step, const float* HWY_RESTRICT w, V& sum0,
                         V& sum1, V& sum2, V& sum3) {
  const V one = hn::Set(d, 1.0f);
  const V v0 = hn::Set(d, w[0]), v1 = hn::Set(d, w[1]), v2 = hn::Set(d, w[2]), v3 = hn::Set(d, w[3]);
  const V c01 = hn::Set(d, w[4]), c23 = hn::Set(d, w[5]);
  const V b0 = hn::Load(d, key_exps);
  V b1 = one, b2 = one, b3 = one;
  if constexpr (kTerms > 1) b1 = hn::Load(d, key_exps + keys_step);
  if constexpr (kTerms > 2) b2 = hn::Load(d, key_exps + 2 * keys_step);
  if constexpr (kTerms > 3) b3 = hn::Load(d, key_exps + 3 * keys_step);
#define ATTEND_ROW(row, sum)                                                                                    \
  if constexpr (kRows > row) {                                                                                  \
    const float* HWY_RESTRICT a = query_exps + row * query_exps_stride;                                         \
    V t1 = one, t2 = one, t3 = one; /* what a term that does not exist has, with weight 0 */                    \
    const V t0 = Denominator<kTier>(d, hn::Set(d, a[0]), b0);                                                   \
    if constexpr (kTerms > 1) t1 = Denominator<kTier>(d, hn::Set(d, a[1]), b1);                                 \
    if constexpr (kTerms > 2) t2 = Denominator<kTier>(d, hn::Set(d, a[2]), b2);                                 \
    if constexpr (kTerms > 3) t3 = Denominator<kTier>(d, hn::Set(d, a[3]), b3);                                 \
    const V d01 = hn::Mul(t0, t1), d23 = hn::Mul(t2, t3);                                                       \
    const V n01 = PairNumerator(d, c01, d01, v0, v1, t0, t1), n23 = PairNumerator(d, c23, d23, v2, v3, t2, t3); \
    const V numerator = hn::MulAdd(n01, d23, hn::Mul(n23, d01));                                                \
    const V denominator = hn::Mul(d01, d23);                                                                    \
    sum = hn::Add(sum, hn::Div(numerator, denominator));                                                        \
  }
  ATTEND_ROW(0, sum0)
  ATTEND_ROW(1, sum1)
  ATTEND_ROW(2, sum2)
  ATTEND_ROW(3, sum3)
#undef ATTEND_ROW
}

// Scores of kRows queries and one vector of keys. Each row runs the same operations in the same order whatever kRows
// is.
template <ScoreTier kTier, size_t kRows, class D>
HWY_INLINE void FactoredRows(D d, const FactoredScoreArgs& args, const float* HWY_RESTRICT query_exps,
                             const float* HWY_RESTRICT key_exps, float* HWY_RESTRICT scores) {
  using V = hn::Vec<D>;
  const size_t step = PanelWidth(d);
  const std::ptrdiff_t stride = args.query_exps_stride;
  const V zero = hn::Zero(d);
  V sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero;
  V lost0 = zero, lost1 = zero, lost2 = zero, lost3 = zero;
  const float* HWY_RESTRICT a = query_exps;
  const float* HWY_RESTRICT b = key_exps;
  const float* HWY_RESTRICT w = args.folded_w_v;
  for (size_t terms = args.num_hiddens; terms != 0;) {
    V s0 = zero, s1 = zero, s2 = zero, s3 = zero;
    const size_t block = HWY_MIN(terms, kTermsPerFactoredBlock);
    size_t u = 0;
    for (; u + 4 <= block; u += 4, a += 4, b += 4 * step, w += 6) {
      AddTerms<kTier, kRows, 4>(d, a, stride, b, step, w, s0, s1, s2, s3);
    }
    if (block - u == 3) AddTerms<kTier, kRows, 3>(d, a, stride, b, step, w, s0, s1, s2, s3);
    if (block - u == 2) AddTerms<kTier, kRows, 2>(d, a, stride, b, step, w, s0, s1, s2, s3);
    if (block - u == 1) AddTerms<kTier, kRows, 1>(d, a, stride, b, step, w, s0, s1, s2, s3);
    terms -= block;
    simd::CompensatedAdd(d, s0, sum0, lost0);
    if constexpr (kRows > 1) simd::CompensatedAdd(d, s1, sum1, lost1);
    if constexpr (kRows > 2) simd::CompensatedAdd(d, s2, sum2, lost2);
    if constexpr (kRows > 3) simd::CompensatedAdd(d, s3, sum3, lost3);
  }
  const V scale = hn::Set(d, args.w_v_scale);
#define ATTEND_STORE(row, sum, lost)                                                     \
  if constexpr (kRows > row) {                                                           \
    hn::Store(hn::Mul(scale, hn::Sub(sum, lost)), d, scores + row * args.scores_stride); \
  }
  ATTEND_STORE(0, sum0, lost0)
  ATTEND_STORE(1, sum1, lost1)
  ATTEND_STORE(2, sum2, lost2)
  ATTEND_STORE(3, sum3, lost3)
#undef ATTEND_STORE
}

// Queries m to m + num_rows - 1, which share a tier, and the first num_vectors vectors of a panel.
template <ScoreTier kTier, class D>
HWY_INLINE void FactoredStep(D d, const FactoredScoreArgs& args, size_t m, size_t num_rows, size_t panel,
                             size_t num_vectors) {
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m);
  const float* query_exps = args.query_exps + row * args.query_exps_stride;
  const float* key_exps = args.key_exps + panel * args.keys_panel_stride;
  float* scores = args.scores + row * args.scores_stride + panel * PanelWidth(d);
  for (size_t lane = 0; lane < num_vectors * hn::Lanes(d); lane += hn::Lanes(d)) {
    switch (num_rows) {
      case 4:
        FactoredRows<kTier, 4>(d, args, query_exps, key_exps + lane, scores + lane);
        break;
      case 3:
        FactoredRows<kTier, 3>(d, args, query_exps, key_exps + lane, scores + lane);
        break;
      case 2:
        FactoredRows<kTier, 2>(d, args, query_exps, key_exps + lane, scores + lane);
        break;
      default:
        FactoredRows<kTier, 1>(d, args, query_exps, key_exps + lane, scores + lane);
        break;
    }
  }
}

// The same by tanh of each sum, query by query.
template <class D>
HWY_INLINE void RationalStep(D d, const FactoredScoreArgs& args, size_t m, size_t num_rows, size_t panel,
                             size_t num_vectors) {
  for (size_t lane = 0; lane < num_vectors * hn::Lanes(d); lane += hn::Lanes(d)) {
    const float* keys = args.keys + panel * args.keys_panel_stride + lane;
    for (size_t i = 0; i < num_rows; ++i) {
      const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m + i);
      const float* query = args.queries + row * args.queries_stride;
      float* scores = args.scores + row * args.scores_stride + panel * PanelWidth(d) + lane;
      hn::Store(AdditiveScore(d, query, keys, PanelWidth(d), args.w_v, args.num_hiddens), d, scores);
    }
  }
}

// max(a, |b|), and a if b is NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MaxAbs(D /*d*/, V a, V b) {
  b = hn::Abs(b);
  return hn::IfThenElse(hn::Gt(b, a), b, a);
}

// Stores e^2b of one vector; returns max(max, |b|).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V StoreExp(D d, const float* HWY_RESTRICT from, float* HWY_RESTRICT exps, V max) {
  const V b = hn::Load(d, from);
  hn::Store(simd::Exp(d, hn::Add(b, b)), d, exps);
  return MaxAbs(d, max, b);
}

// max_j key_max[j] over the first n keys of a panel.
template <class D>
HWY_INLINE float MaxOfKeys(D d, const float* HWY_RESTRICT key_max, size_t n) {
  hn::Vec<D> max = hn::Zero(d);
  size_t j = 0;
  for (; j + hn::Lanes(d) <= n; j += hn::Lanes(d)) max = hn::Max(max, hn::Load(d, key_max + j));
  if (j < n) max = hn::Max(max, hn::IfThenElseZero(hn::FirstN(d, n - j), hn::Load(d, key_max + j)));
  return simd::HorizontalMax(d, max);
}

// What one query sees of one panel.
struct PanelView {
  size_t num_keys;
  float key_max;
  ScoreTier tier;
};

// previous: of another query and the same panel, whose key_max is taken over if it sees as many keys.
template <class D>
HWY_INLINE PanelView ViewPanel(D d, const FactoredScoreArgs& args, size_t m, size_t panel, const PanelView& previous) {
  const size_t first = panel * PanelWidth(d);
  const std::ptrdiff_t all = static_cast<std::ptrdiff_t>(args.num_keys);
  const std::ptrdiff_t len = args.lens == nullptr ? all : HWY_MIN(static_cast<std::ptrdiff_t>(args.lens[m]), all);
  PanelView view = previous;
  view.num_keys =
      len <= static_cast<std::ptrdiff_t>(first) ? 0 : HWY_MIN(static_cast<size_t>(len) - first, PanelWidth(d));
  if (view.num_keys != previous.num_keys) view.key_max = MaxOfKeys(d, args.key_max + first, view.num_keys);
  const float query_max = args.query_max[m];
  if (args.forced_tier >= 0) {
    view.tier = static_cast<ScoreTier>(args.forced_tier);
  } else if (query_max + view.key_max <= kFreeMax) {
    view.tier = ScoreTier::kFree;
  } else if (query_max <= kClampedMax && view.key_max <= kClampedMax) {
    view.tier = ScoreTier::kClamped;
  } else {
    view.tier = ScoreTier::kRational;
  }
  return view;
}

// Panel by panel; up to kQueriesPerStep neighbouring queries of one tier together.
template <class D>
HWY_INLINE void FactoredScore(D d, const FactoredScoreArgs& args) {
  if (args.num_queries == 0) return;
  for (size_t panel = 0; panel * PanelWidth(d) < args.num_keys; ++panel) {
    PanelView next = ViewPanel(d, args, 0, panel, {0, 0.0f, ScoreTier::kFree});
    for (size_t m = 0; m < args.num_queries;) {
      const PanelView view = next;
      size_t num_rows = 1, num_keys = view.num_keys;
      for (; m + num_rows < args.num_queries; ++num_rows) {
        next = ViewPanel(d, args, m + num_rows, panel, next);
        if (num_rows == kQueriesPerStep || next.tier != view.tier || (next.num_keys == 0) != (view.num_keys == 0))
          break;
        num_keys = HWY_MAX(num_keys, next.num_keys);
      }
      const size_t num_vectors = (num_keys + hn::Lanes(d) - 1) / hn::Lanes(d);
      if (num_keys != 0 && args.tier_counts != nullptr) {
        args.tier_counts[static_cast<size_t>(view.tier)] += static_cast<std::uint32_t>(num_rows);
      }
      switch (view.tier) {
        case ScoreTier::kFree:
          FactoredStep<ScoreTier::kFree>(d, args, m, num_rows, panel, num_vectors);
          break;
        case ScoreTier::kClamped:
          FactoredStep<ScoreTier::kClamped>(d, args, m, num_rows, panel, num_vectors);
          break;
        case ScoreTier::kRational:
          RationalStep(d, args, m, num_rows, panel, num_vectors);
          break;
      }
      m += num_rows;
    }
  }
}

// e^2b and max|b| of panels, in memory order: a column of vectors at a time took 1.5 times as long.
template <class D>
HWY_INLINE void ExpPanels(D d, const ExpPanelsArgs& args) {
  static_assert(kVectorsPerPanel == 2 || kVectorsPerPanel == 4);
  using V = hn::Vec<D>;
  const size_t N = hn::Lanes(d);
  const size_t width = PanelWidth(d);
  for (size_t panel = 0; panel * width < args.num_keys; ++panel) {
    const float* HWY_RESTRICT row = args.panels + panel * args.panel_stride;
    float* HWY_RESTRICT exps = args.exps + panel * args.panel_stride;
    V max0 = hn::Zero(d), max1 = max0, max2 = max0, max3 = max0;
    for (size_t u = 0; u < args.num_hiddens; ++u, row += width, exps += width) {
      max0 = StoreExp(d, row, exps, max0);
      max1 = StoreExp(d, row + N, exps + N, max1);
      if constexpr (kVectorsPerPanel > 2) {
        max2 = StoreExp(d, row + 2 * N, exps + 2 * N, max2);
        max3 = StoreExp(d, row + 3 * N, exps + 3 * N, max3);
      }
    }
    float* key_max = args.key_max + panel * width;
    hn::Store(max0, d, key_max);
    hn::Store(max1, d, key_max + N);
    if constexpr (kVectorsPerPanel > 2) {
      hn::Store(max2, d, key_max + 2 * N);
      hn::Store(max3, d, key_max + 3 * N);
    }
  }
}

// e^2a and max|a| of rows.
template <class D>
HWY_INLINE void ExpRows(D d, const ExpRowsArgs& args) {
  using V = hn::Vec<D>;
  const size_t N = hn::Lanes(d);
  for (size_t m = 0; m < args.num_rows; ++m) {
    const float* row = args.rows + static_cast<std::ptrdiff_t>(m) * args.stride;
    float* exps = args.exps + static_cast<std::ptrdiff_t>(m) * args.exps_stride;
    V max = hn::Zero(d);
    size_t u = 0;
    for (; u + N <= args.num_hiddens; u += N) {
      const V a = hn::LoadU(d, row + u);
      max = MaxAbs(d, max, a);
      hn::StoreU(simd::Exp(d, hn::Add(a, a)), d, exps + u);
    }
    if (u < args.num_hiddens) {
      const V a = simd::LoadTail(d, row + u, args.num_hiddens - u);
      max = MaxAbs(d, max, a);
      simd::StoreTail(simd::Exp(d, hn::Add(a, a)), d, exps + u, args.num_hiddens - u);
    }
    args.row_max[m] = simd::HorizontalMax(d, max);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_FACTORED_SCORE_INL_H_
