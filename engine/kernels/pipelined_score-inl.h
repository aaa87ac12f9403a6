// The additive score of four queries and one vector of keys, or one query and two or four, by eight terms per division
// or by three, software-pipelined: for AVX2, whose 16 registers leave compilers no room to find such an order
// themselves.
//
// By arithmetic, a group of eight terms (score_group-inl.h) is a chain of some 40 cycles, of which a CPU with two
// multipliers could begin one in 12. Scores one after another leave it to the CPU to overlap their chains, for which it
// would have to look further ahead than it does. Here two scores go together, and between the first operations of their
// group stand the last ones of the two before, from the product of the denominators on, or by three from the second of
// three divisions on. The two share what they load of alphas; by three, of keys or of the query, too. That is the order
// of the program (pipelined_groups-inl.h, simd/in_order-inl.h); operations and bits of a score are those of AddGroup.
//
// EPYC (Zen 3), attend turns --layer additive, in quiet turns and beside others' threads:
//   - four queries, relative to FactoredTile<8, 4, 1, false>: --num-hiddens 256 --shape 1,128,512,256 0.91 and 0.93, of
//     which our own projections are 0.01; --num-hiddens 128 --shape 2,256,1024,192,256,256 0.91 and 0.94. With empty
//     asm statements between Highway's own operations instead, between which compilers copied registers, 0.96 and 1.04
//   - four groups without a branch between them, sums that end together, and c after the division, relative to that:
//     0.97 and 0.98; 0.975 and 1.01
// bench: additive_score/m1_n100_u256_prepared, one query, relative to FactoredTile<8, 1, 2, false>: 0.63 to 0.73.
//
// By three: on Zen 4 a division takes the places of two multiplications, so that a group is 22 of these, 11 cycles, and
// by eight terms 24. EPYC (Zen 4) without AVX-512, us, additive_score/*_prepared_eight and _three: m128_n512_u256 1315
// and 1130, m1_n100_u256 2.28 and 2.02; by FactoredTile<3> 1572 and 2.66. What cost more there:
//   - all divisions in their own group 1196; besides, the operations of one score before those of the other 1240, or
//     each score loading all it needs 1230
//   - one query by two vectors of keys, a panel, at a time 2.20
//   - the last operations of a tile between the first of the next, so that none waits for its divisions: 1147; within
//     one call alone 1155
#if defined(ATTEND_KERNELS_PIPELINED_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_PIPELINED_SCORE_INL_H_
#undef ATTEND_KERNELS_PIPELINED_SCORE_INL_H_
#else
#define ATTEND_KERNELS_PIPELINED_SCORE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "engine/kernels/additive_score.h"
#include "engine/kernels/panel-inl.h"
#include "engine/kernels/pipelined_groups-inl.h"
#include "engine/kernels/score_group-inl.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/in_order-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Whether scores of this tier go this way.
template <size_t kTerms>
static constexpr bool kIsPipelined = simd::kSumsStay && (kTerms == 8 || kTerms == 3);

#if ATTEND_TARGET_IS_AVX2_FMA

// What all scores of a tile have from a group of hidden units on: one query and pairs of vectors of keys, kOneQuery, or
// pairs of queries and one vector.
template <size_t kPairs, bool kOneQuery>
struct ScoresFrom {
  const float* HWY_RESTRICT query_exps;
  const float* HWY_RESTRICT key_exps;
  std::ptrdiff_t stride;  // elements from one query, or vector of keys, to the next
  const float* HWY_RESTRICT alphas;
  const float* HWY_RESTRICT constants;

  template <class D>
  HWY_INLINE ScoresFrom group(D d, size_t g) const {
    return {query_exps + 8 * g, key_exps + 8 * g * hn::Lanes(d), stride, alphas + 8 * g,
            constants + kGroupConstants * g};
  }
  HWY_INLINE TwoScores<kOneQuery> pair(size_t p) const {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(2 * p) * stride;
    if constexpr (kOneQuery) {
      return {query_exps, query_exps, key_exps + first, key_exps + first + stride, alphas};
    } else {
      return {query_exps + first, query_exps + first + stride, key_exps, key_exps, alphas};
    }
  }
};

// Sums of all scores of a tile, in memory: half of the registers would not do for both them and the terms of two.
template <class D, size_t kScores, class V = hn::Vec<D>>
struct BlockSums {
  HWY_ALIGN float block[kScores * hn::MaxLanes(D())];  // at first what rounding took from the last one
  HWY_ALIGN float sum[kScores * hn::MaxLanes(D())];

  HWY_INLINE void Clear(D d) {
    // Of no value that compilers know: else it became `rep stos`.
    const V zero = simd::MulInOrder(d, hn::Zero(d), hn::Zero(d));
    for (size_t i = 0; i < kScores * hn::Lanes(d); i += hn::Lanes(d)) {
      hn::Store(zero, d, block + i);
      hn::Store(zero, d, sum + i);
    }
  }
  // Sum i with its block; carry: what rounding took.
  HWY_INLINE V Total(D d, size_t i, V& carry) const {
    V total = hn::Load(d, sum + i * hn::Lanes(d));
    AddBlock(d, hn::Load(d, block + i * hn::Lanes(d)), total, carry);
    return total;
  }
  HWY_INLINE void EndBlocks(D d) {
    for (size_t i = 0; i < kScores; ++i) {
      V carry;
      hn::Store(Total(d, i, carry), d, sum + i * hn::Lanes(d));
      hn::Store(carry, d, block + i * hn::Lanes(d));
    }
  }
};

// A group of all scores: `of_two` is at first what is left of the last pair and the group before, whose constants
// `before` are, and becomes that of this. With those, a block before ends, if kFirst.
template <bool kFirst, size_t kPairs, bool kOneQuery, class D, class Left>
HWY_INLINE void GroupOfAll(D d, const ScoresFrom<kPairs, kOneQuery>& group, Left& of_two, const float* before,
                           BlockSums<D, 2 * kPairs>& sums) {
  GroupOfTwo(d, group.pair(0), of_two, before, sums.block + 2 * (kPairs - 1) * hn::Lanes(d));
  if constexpr (kFirst) sums.EndBlocks(d);
  if constexpr (kPairs == 2) GroupOfTwo(d, group.pair(1), of_two, group.constants, sums.block);
}

// Scores from their first group on, score i at scores + i * scores_stride.
template <size_t kTerms, size_t kPairs, bool kOneQuery, class D>
HWY_INLINE void PipelinedTile(D d, const FactoredScoreArgs& args, ScoresFrom<kPairs, kOneQuery> next,
                              PrefetchLines& lines, size_t lines_per_group, float* scores,
                              std::ptrdiff_t scores_stride) {
  using V = hn::Vec<D>;
  static_assert(kGroupsPerBlock<kTerms> == 4);
  static constexpr float kNoTerms[kGroupConstants] = {};  // constants by which fractions add nothing
  const size_t lanes = hn::Lanes(d), groups = args.num_hiddens / 8, rest = args.num_hiddens % 8;
  BlockSums<D, 2 * kPairs> sums;
  sums.Clear(d);
  auto of_two = LeftOfGroup<kTerms, D>::OfNoTerms(d);
  const float* before = kNoTerms;
  for (size_t block = 0; block < groups / 4; ++block) {
    for (size_t line = 0; line < 4 * lines_per_group; ++line) lines.fetch();
    GroupOfAll<true>(d, next, of_two, before, sums);
    GroupOfAll<false>(d, next.group(d, 1), of_two, next.constants, sums);
    GroupOfAll<false>(d, next.group(d, 2), of_two, next.group(d, 1).constants, sums);
    GroupOfAll<false>(d, next.group(d, 3), of_two, next.group(d, 2).constants, sums);
    before = next.group(d, 3).constants;
    next = next.group(d, 4);
  }
  const size_t left = groups % 4;
  for (size_t line = 0; line < (rest == 0 ? left : left + 1) * lines_per_group; ++line) lines.fetch();
  for (size_t i = 0; i < left; ++i) {
    if (i == 0) {
      GroupOfAll<true>(d, next, of_two, before, sums);
    } else {
      GroupOfAll<false>(d, next, of_two, before, sums);
    }
    before = next.constants;
    next = next.group(d, 1);
  }
  FinishTerms(d, of_two, before, sums.block + 2 * (kPairs - 1) * lanes);
  if (left == 0 && rest != 0) sums.EndBlocks(d);
  for (size_t i = 0; i < 2 * kPairs; ++i) {
    if (rest != 0) {
      const auto two = next.pair(i / 2);
      const Group<false> group{i % 2 ? two.b : two.a, i % 2 ? two.b_keys : two.a_keys, two.alphas, next.constants, 0};
      V s = hn::Load(d, sums.block + i * lanes);
      AddGroup<kTerms>(d, group, rest, s);
      hn::Store(s, d, sums.block + i * lanes);
    }
    V carry;
    const V total = sums.Total(d, i, carry);
    const V score = hn::Mul(hn::Set(d, args.w_v_scale), hn::Add(total, carry));
    hn::Store(score, d, scores + static_cast<std::ptrdiff_t>(i) * scores_stride);
  }
}

// FactoredTile<kTerms, 4, 1, false> of the first `count` vectors of a panel, with its bits.
template <size_t kTerms, class D>
HWY_NOINLINE void PipelinedFourRows(D d, const FactoredScoreArgs& args, size_t m, size_t panel, size_t count,
                                    LinesAhead& ahead) {
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m);
  ScoresFrom<2, false> first{args.query_exps + row * args.query_exps_stride,
                             args.key_exps + panel * PanelWidth(d) * args.num_hiddens, args.query_exps_stride,
                             args.folded_w_v, args.folded_w_v + folded_constants_at(args.num_hiddens)};
  float* scores = args.scores + row * args.scores_stride + panel * PanelWidth(d);
  PrefetchLines lines = ahead.lines;  // in registers
  for (size_t i = 0; i < count; ++i) {
    PipelinedTile<kTerms>(d, args, first, lines, ahead.per_group, scores + i * hn::Lanes(d), args.scores_stride);
    first.key_exps += hn::Lanes(d) * args.num_hiddens;
  }
  ahead.lines = lines;
}

// FactoredTile<kTerms, 1, 2 kPairs, false> of the vectors of keys from `vector` on, with its bits.
template <size_t kTerms, size_t kPairs, class D>
HWY_NOINLINE void PipelinedRow(D d, const FactoredScoreArgs& args, size_t m, size_t vector, LinesAhead& ahead) {
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m), lanes = static_cast<std::ptrdiff_t>(hn::Lanes(d));
  const ScoresFrom<kPairs, true> first{args.query_exps + row * args.query_exps_stride,
                                       args.key_exps + vector * hn::Lanes(d) * args.num_hiddens,
                                       lanes * static_cast<std::ptrdiff_t>(args.num_hiddens), args.folded_w_v,
                                       args.folded_w_v + folded_constants_at(args.num_hiddens)};
  float* scores = args.scores + row * args.scores_stride + vector * hn::Lanes(d);
  PipelinedTile<kTerms>(d, args, first, ahead.lines, 0, scores, lanes);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
