// Additive scores from exponentials: with A = e^2a, B = e^2b and t = 1 + A B,
//
//     tanh(a + b) = 1 - 2 / t
//
// M U + N U exponentials replace M N U of them. With alpha = K / (2 w) and tau = alpha t = (alpha A) B + alpha, no
// weight is left to be multiplied by:
//
//     w tanh(a + b) = w - K / tau
//
// Eight hidden units are a group with one K, which makes their tau range around 1 together (fold_w_v); they share a
// division. With c = sum w / K,
//
//     1/tau0 + 1/tau1 = (tau0 + tau1) / (tau0 tau1) = n01 / d01
//     n01/d01 + n23/d23 = (n01 d23 + n23 d01) / (d01 d23) = n03 / d03
//     sum w tanh = K (c - (n03 d47 + n47 d03) / (d03 d47))
//
// 22 multiplications and multiply-adds, five additions and a division per eight terms. Lanes run over keys, whose
// exponentials stand vector by vector, so that of a panel that is not full no more is read than its keys, or a few
// more; queries are broadcast. Where products of eight tau have not the range, there are four, two or one to a
// division; or three, which CPUs begin with that divide fast (plan/score_tier_rules.cc):
//
//     sum w tanh = K ((c - n67 / d67) - (n02 / d02 + n35 / d35))    n02 = n01 tau2 + d01    d02 = d01 tau2
//
// Rounding: near tanh = -1, n / d is twice as large as what it adds up to, and so are its roundings. Equal terms would
// repeat them in every group, but K differs from group to group: wrong by at most 3.1e-7 sum|w| then with 40 units,
// where one K for all gave 4.7e-7 (with 32 units, and c before the division). Terms that are chosen for each group by
// itself came to 4.4e-7. c before the division, (c d - n) / d, rounds once less but is one multiplication more;
// additions have execution units of their own on CPUs like Zen 3.
//
// bench: additive_score/*. Losers on AVX3 (Emerald Rapids, fma_peak 176), ns per element of a loop over ready
// exponentials where this one takes about 0.050:
//   - weights as factors, (w t - 2 w) / t in pairs, eight terms per division: 0.061. With four, 0.0725 instead of
//     0.0535 in additive_score/m128_n512_u256, which includes the exponentials.
//   - c after two terms 0.054, after four 0.0505: more exact, which matters only with one K for all groups.
//   - sixteen terms per division 0.055: the longer chain waits for more than the division saved.
//   - an estimated reciprocal and one correction for each or every second division: as fast to within 2 %.
//   - queries or vectors interleaved operation by operation: 7 % to 16 % slower; one stream alone 24 %. AVX2 does gain
//     by an order of its own: pipelined_score-inl.h.
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
#include "engine/kernels/pipelined_score-inl.h"
#include "engine/kernels/prefetch.h"
#include "engine/kernels/score_group-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/math-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

static_assert(kVectorsPerPanel == 2 || kVectorsPerPanel == 4);

// Four vectors of scores at a time, lest they wait for their divisions: of four queries and one vector of keys, whose
// exponentials, 64 bytes by num_hiddens, then stay in L1; of fewer queries, up to four vectors of keys. One query and a
// whole panel of keys, 64 KiB for 256 hidden units, was 1.5 % slower with AVX-512 (additive/b1_m128_n512_u256), as fast
// with AVX2.
static constexpr size_t kScoreRowsPerStep = 4;

// The same for kRows queries and kVectors vectors of keys, sums of the first query first.
template <size_t kTerms, size_t kRows, size_t kVectors, class D, class G, class V = hn::Vec<D>>
HWY_INLINE void AddGroups(D d, const G& group, std::ptrdiff_t query_exps_stride, size_t key_exps_stride, size_t count,
                          V& s0, V& s1, V& s2, V& s3) {
  const auto part = [&](size_t i) HWY_ATTR {
    G one = group;
    one.query_exps += static_cast<std::ptrdiff_t>(i / kVectors) * query_exps_stride;
    one.key_exps += i % kVectors * key_exps_stride;
    return one;
  };
  AddGroup<kTerms>(d, group, count, s0);
  if constexpr (kRows * kVectors > 1) AddGroup<kTerms>(d, part(1), count, s1);
  if constexpr (kRows * kVectors > 2) AddGroup<kTerms>(d, part(2), count, s2);
  if constexpr (kRows * kVectors > 3) AddGroup<kTerms>(d, part(3), count, s3);
}

// Scores of queries m to m + kRows - 1 and kVectors vectors of a panel from `lane` on, kNarrow: one, of that width. The
// same operations in the same order for each, whatever kRows and kVectors are.
template <size_t kTerms, size_t kRows, size_t kVectors, bool kNarrow, class D>
HWY_NOINLINE void FactoredTile(D d, const FactoredScoreArgs& args, size_t m, size_t panel, size_t lane, size_t narrow,
                               LinesAhead& ahead) {
  using V = hn::Vec<D>;
  static_assert(kRows * kVectors <= 4 && (kVectors == 1 || !kNarrow));
  const V zero = hn::Zero(d);
  V sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero;
  V carry0 = zero, carry1 = zero, carry2 = zero, carry3 = zero;
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m), stride = args.query_exps_stride;
  const size_t vector = hn::Lanes(d) * args.num_hiddens;  // of keys
  Group<kNarrow> group{args.query_exps + row * stride,
                       args.key_exps + (panel * PanelWidth(d) + lane) * args.num_hiddens, args.folded_w_v,
                       args.folded_w_v + folded_constants_at(args.num_hiddens), narrow};
  PrefetchLines lines = ahead.lines;  // in registers
  const size_t per_group = kRows == kScoreRowsPerStep ? ahead.per_group : 0;
  for (size_t left = args.num_hiddens; left != 0;) {
    V s0 = carry0, s1 = carry1, s2 = carry2, s3 = carry3;
    for (size_t i = 0; i < kGroupsPerBlock<kTerms> && left != 0; ++i) {
      for (size_t line = 0; line < per_group; ++line) lines.fetch();
      if (HWY_LIKELY(left >= 8)) {
        AddGroups<kTerms, kRows, kVectors>(d, group, stride, vector, 8, s0, s1, s2, s3);
        left -= 8;
      } else {
        AddGroups<kTerms, kRows, kVectors>(d, group, stride, vector, left, s0, s1, s2, s3);
        left = 0;
      }
      group.query_exps += 8;
      group.key_exps += 8 * group.width(d);
      group.alphas += 8;
      group.constants += kGroupConstants;
    }
    AddBlock(d, s0, sum0, carry0);
    AddBlock(d, s1, sum1, carry1);
    AddBlock(d, s2, sum2, carry2);
    AddBlock(d, s3, sum3, carry3);
  }
  if constexpr (kRows == kScoreRowsPerStep) ahead.lines = lines;
  float* scores = args.scores + row * args.scores_stride + panel * PanelWidth(d) + lane;
  const auto store = [&](size_t i, V sum, V carry) HWY_ATTR {
    float* to = scores + static_cast<std::ptrdiff_t>(i / kVectors) * args.scores_stride + i % kVectors * hn::Lanes(d);
    hn::Store(hn::Mul(hn::Set(d, args.w_v_scale), hn::Add(sum, carry)), d, to);
  };
  store(0, sum0, carry0);
  if constexpr (kRows * kVectors > 1) store(1, sum1, carry1);
  if constexpr (kRows * kVectors > 2) store(2, sum2, carry2);
  if constexpr (kRows * kVectors > 3) store(3, sum3, carry3);
}

// num_rows queries from m on, 1 or kScoreRowsPerStep, or 2 of a tier that is pipelined, and `count` vectors from a
// panel's first on, none of them narrow.
template <size_t kTerms, class D>
HWY_INLINE void FactoredVectors(D d, const FactoredScoreArgs& args, size_t m, size_t num_rows, size_t panel,
                                size_t count, LinesAhead& ahead) {
  static_assert(kScoreRowsPerStep == 4);  // as PipelinedVectors takes
  const size_t N = hn::Lanes(d);
  size_t v = 0;
  if constexpr (kIsPipelined<kTerms>) {
    PipelinedVectors<kTerms>(d, args, m, num_rows, panel * kVectorsPerPanel, count, ahead);
    v = num_rows == 1 ? count / 2 * 2 : count;
  } else if (num_rows == kScoreRowsPerStep) {
    for (; v < count; ++v) FactoredTile<kTerms, kScoreRowsPerStep, 1, false>(d, args, m, panel, v * N, 0, ahead);
  } else {
    if constexpr (kVectorsPerPanel == 4) {
      for (; v + 4 <= count; v += 4) FactoredTile<kTerms, 1, 4, false>(d, args, m, panel, v * N, 0, ahead);
      for (; v + 3 <= count; v += 3) FactoredTile<kTerms, 1, 3, false>(d, args, m, panel, v * N, 0, ahead);
    }
    for (; v + 2 <= count; v += 2) FactoredTile<kTerms, 1, 2, false>(d, args, m, panel, v * N, 0, ahead);
  }
  if (v < count) FactoredTile<kTerms, 1, 1, false>(d, args, m, panel, v * N, 0, ahead);
}

// Queries m to m + num_rows - 1 <= m + kScoreRowsPerStep - 1 and the first num_vectors vectors of a panel. No more:
// what lies beyond the keys may be subnormal, hence slow. The narrow one goes by itself: in one tile with others, all
// sums went through memory, and additive_score/m128_n512_u256 took 1.5 times as long, though it has none.
template <size_t kTerms, class D>
HWY_INLINE void FactoredStep(D d, const FactoredScoreArgs& args, size_t m, size_t num_rows, size_t panel,
                             size_t num_vectors, size_t lines_per_group) {
  LinesAhead ahead{PrefetchLines(args.ahead, args.query_exps), lines_per_group};
  const size_t N = hn::Lanes(d), last = (num_vectors - 1) * N;
  const size_t width = exps_width(args.num_exps - (panel * PanelWidth(d) + last), N);
  const bool all = num_rows == kScoreRowsPerStep;
  for (size_t i = 0; i < num_rows;) {
    const size_t rows = all ? num_rows : kIsPipelined<kTerms> && i + 2 <= num_rows ? 2 : 1;  // at a time
    FactoredVectors<kTerms>(d, args, m + i, rows, panel, width < N ? num_vectors - 1 : num_vectors, ahead);
    i += rows;
  }
  if constexpr (hn::MaxLanes(D()) > 4) {
    if (width < N && all) FactoredTile<kTerms, kScoreRowsPerStep, 1, true>(d, args, m, panel, last, width, ahead);
    for (size_t i = 0; width < N && !all && i < num_rows; ++i) {
      FactoredTile<kTerms, 1, 1, true>(d, args, m + i, panel, last, width, ahead);
    }
  }
  ahead.lines.stop();
}

// The same by tanh of each sum.
template <class D>
HWY_INLINE void RationalStep(D d, const FactoredScoreArgs& args, size_t m, size_t num_rows, size_t panel,
                             size_t num_vectors) {
  const float* keys = args.keys + panel * args.keys_panel_stride;
  for (size_t i = 0; i < num_rows; ++i) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m + i);
    const float* query = QueryRow(args, m + i);
    float* scores = args.scores + row * args.scores_stride + panel * PanelWidth(d);
    for (size_t lane = 0; lane < num_vectors * hn::Lanes(d); lane += hn::Lanes(d)) {
      hn::Store(AdditiveScore(d, query, keys + lane, PanelWidth(d), args.w_v, args.num_hiddens), d, scores + lane);
    }
  }
}

// max_j key_max[j] over n keys.
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

// The first tier, from first_tier on, whose range holds max|a| + max|b|.
HWY_INLINE ScoreTier ChooseTier(const FactoredScoreArgs& args, float sum_of_maxima) {
  if (args.forced_tier >= 0) return static_cast<ScoreTier>(args.forced_tier);
  const float* ranges = args.folded_w_v + folded_ranges_at(args.num_hiddens);
  int tier = static_cast<int>(args.first_tier);
  while (tier < static_cast<int>(ScoreTier::kRational) && !(sum_of_maxima <= ranges[tier])) ++tier;
  return static_cast<ScoreTier>(tier);
}

// previous: of another query and the same panel, whose key_max is taken over if it sees as many keys.
template <class D>
HWY_INLINE PanelView ViewPanel(D d, const FactoredScoreArgs& args, size_t m, size_t panel, const PanelView& previous) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(panel * PanelWidth(d));
  const std::ptrdiff_t all = static_cast<std::ptrdiff_t>(args.num_keys);
  const std::ptrdiff_t len = args.lens == nullptr ? all : HWY_MIN(static_cast<std::ptrdiff_t>(args.lens[m]), all);
  PanelView view = previous;
  view.num_keys = len <= first ? 0 : HWY_MIN(static_cast<size_t>(len - first), PanelWidth(d));
  if (view.num_keys != previous.num_keys) view.key_max = MaxOfKeys(d, args.key_max + first, view.num_keys);
  view.tier = ChooseTier(args, args.query_max[m] + view.key_max);
  return view;
}

// How many lines are prefetched in each group of hidden units, so that all are when the scores are there.
template <class D>
HWY_INLINE size_t LinesPerGroup(D d, const FactoredScoreArgs& args) {
  const size_t steps = hwy::DivCeil(args.num_queries, kScoreRowsPerStep);
  const size_t vectors = hwy::DivCeil(args.num_keys, hn::Lanes(d));
  const size_t groups = steps * vectors * hwy::DivCeil(args.num_hiddens, size_t{8});
  return groups == 0 ? 0 : hwy::DivCeil(args.ahead_lines, groups);
}

// How many panels from this one on, seen as `view`, a single query takes together: full ones of one tier, and one that
// may not be full; one by one where sums are needed, whose keys do not stand vector by vector. num_keys: what it sees
// of all of them.
template <class D>
HWY_INLINE size_t PanelsTogether(D d, const FactoredScoreArgs& args, size_t panel, PanelView view, size_t& num_keys) {
  size_t panels = 1;
  const ScoreTier tier = view.tier;
  if (tier == ScoreTier::kRational) return panels;
  while (view.num_keys == PanelWidth(d) && (panel + panels) * PanelWidth(d) < args.num_keys) {
    view = ViewPanel(d, args, 0, panel + panels, {0, 0.0f, ScoreTier::kRational});
    if (view.num_keys == 0 || view.tier != tier) break;
    num_keys += view.num_keys;
    ++panels;
  }
  return panels;
}

// Panel by panel; up to kScoreRowsPerStep neighbouring queries of one tier together, or panels of a single query.
template <class D>
HWY_INLINE void FactoredScore(D d, const FactoredScoreArgs& args) {
  if (args.num_queries == 0) return;
  const size_t lines = LinesPerGroup(d, args);
  for (size_t panel = 0, panels = 1; panel * PanelWidth(d) < args.num_keys; panel += panels) {
    PanelView next = ViewPanel(d, args, 0, panel, {0, 0.0f, ScoreTier::kRational});
    for (size_t m = 0; m < args.num_queries;) {
      const PanelView view = next;
      size_t num_rows = 1, num_keys = view.num_keys;
      for (; m + num_rows < args.num_queries; ++num_rows) {
        next = ViewPanel(d, args, m + num_rows, panel, next);
        if (num_rows == kScoreRowsPerStep || next.tier != view.tier || next.num_keys == 0 || view.num_keys == 0) break;
        num_keys = HWY_MAX(num_keys, next.num_keys);
      }
      if (args.num_queries == 1) panels = PanelsTogether(d, args, panel, view, num_keys);
      if (num_keys != 0) {
        if (args.tier_counts != nullptr) {
          args.tier_counts[static_cast<size_t>(view.tier)] += static_cast<std::uint32_t>(panels * num_rows);
        }
        const size_t num_vectors = (num_keys + hn::Lanes(d) - 1) / hn::Lanes(d);
        switch (view.tier) {
          case ScoreTier::kEight:
            FactoredStep<8>(d, args, m, num_rows, panel, num_vectors, lines);
            break;
          case ScoreTier::kFour:
            FactoredStep<4>(d, args, m, num_rows, panel, num_vectors, lines);
            break;
          case ScoreTier::kThree:
            FactoredStep<3>(d, args, m, num_rows, panel, num_vectors, lines);
            break;
          case ScoreTier::kTwo:
            FactoredStep<2>(d, args, m, num_rows, panel, num_vectors, lines);
            break;
          case ScoreTier::kOne:
            FactoredStep<1>(d, args, m, num_rows, panel, num_vectors, lines);
            break;
          case ScoreTier::kRational:
            RationalStep(d, args, m, num_rows, panel, num_vectors);
            break;
        }
      }
      m += num_rows;
    }
  }
}

// exps[i] = factors[i] e^(2 x[i]); returns max_i |x[i]|, NaN passed over.
template <class D>
HWY_INLINE float ExpsOfRow(D d, const float* HWY_RESTRICT x, const float* HWY_RESTRICT factors, size_t n,
                           float* HWY_RESTRICT exps) {
  using V = hn::Vec<D>;
  const size_t N = hn::Lanes(d);
  V max = hn::Zero(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    const V v = hn::LoadU(d, x + i);
    max = simd::MaxKeepNaN(d, max, hn::Abs(v));  // NaN is passed over
    hn::StoreU(hn::Mul(simd::ExpInRange<2>(d, v), hn::LoadU(d, factors + i)), d, exps + i);
  }
  if (i < n) {
    const V v = simd::LoadTail(d, x + i, n - i);
    max = simd::MaxKeepNaN(d, max, hn::Abs(v));  // NaN is passed over
    const V y = hn::Mul(simd::ExpInRange<2>(d, v), simd::LoadTail(d, factors + i, n - i));
    simd::StoreTail(y, d, exps + i, n - i);
  }
  return simd::HorizontalMax(d, max);
}

template <class D>
HWY_INLINE void ExpRows(D d, const ExpRowsArgs& args) {
  for (size_t m = 0; m < args.num_rows; ++m) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m);
    args.row_max[m] =
        ExpsOfRow(d, args.rows + row * args.stride, args.factors, args.num_hiddens, args.exps + row * args.exps_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_FACTORED_SCORE_INL_H_
