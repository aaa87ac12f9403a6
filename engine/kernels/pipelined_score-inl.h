// The additive score of four queries and one vector of keys, two and two, or one and four, by eight terms per division
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
//   - one query by two vectors of keys, a panel, at a time 2.20; three queries one by one in that way,
//     additive_score/m3_n512_u256_prepared, 30.2 instead of 28.0
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
#include <type_traits>

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

// What the scores of a tile have from a group of hidden units on: kPairs pairs of them, of kQueries queries, 1, 2 or 4,
// and the vectors of keys that makes. Score i is of query i % kQueries and vector i / kQueries.
template <size_t kPairs, size_t kQueries>
struct ScoresFrom {
  static constexpr size_t kVectors = 2 * kPairs / kQueries;
  const float* HWY_RESTRICT query_exps;
  const float* HWY_RESTRICT key_exps;
  std::ptrdiff_t query_stride, key_stride;  // elements from one query, or vector of keys, to the next
  const float* HWY_RESTRICT alphas;
  const float* HWY_RESTRICT constants;

  template <class D>
  HWY_INLINE ScoresFrom group(D d, size_t g) const {
    return {query_exps + 8 * g, key_exps + 8 * g * hn::Lanes(d), query_stride, key_stride,
            alphas + 8 * g,     constants + kGroupConstants * g};
  }
  HWY_INLINE const float* query(size_t i) const {
    return query_exps + static_cast<std::ptrdiff_t>(i % kQueries) * query_stride;
  }
  HWY_INLINE const float* keys(size_t i) const {
    return key_exps + static_cast<std::ptrdiff_t>(i / kQueries) * key_stride;
  }
  HWY_INLINE TwoScores<kQueries == 1> pair(size_t p) const {
    return {query(2 * p), query(2 * p + 1), keys(2 * p), keys(2 * p + 1), alphas};
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
template <bool kFirst, size_t kPairs, size_t kQueries, class D, class Left>
HWY_INLINE void GroupOfAll(D d, const ScoresFrom<kPairs, kQueries>& group, Left& of_two, const float* before,
                           BlockSums<D, 2 * kPairs>& sums) {
  GroupOfTwo(d, group.pair(0), of_two, before, sums.block + 2 * (kPairs - 1) * hn::Lanes(d));
  if constexpr (kFirst) sums.EndBlocks(d);
  if constexpr (kPairs == 2) GroupOfTwo(d, group.pair(1), of_two, group.constants, sums.block);
}

// Scores from their first group on; those of the first query and vector go to `scores`.
template <size_t kTerms, size_t kPairs, size_t kQueries, class D>
HWY_INLINE void PipelinedTile(D d, const FactoredScoreArgs& args, ScoresFrom<kPairs, kQueries> next,
                              PrefetchLines& lines, size_t lines_per_group, float* scores) {
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
      const Group<false> group{next.query(i), next.keys(i), next.alphas, next.constants, 0};
      V s = hn::Load(d, sums.block + i * lanes);
      AddGroup<kTerms>(d, group, rest, s);
      hn::Store(s, d, sums.block + i * lanes);
    }
    V carry;
    const V total = sums.Total(d, i, carry);
    const V score = hn::Mul(hn::Set(d, args.w_v_scale), hn::Add(total, carry));
    hn::Store(score, d, scores + static_cast<std::ptrdiff_t>(i % kQueries) * args.scores_stride + i / kQueries * lanes);
  }
}

// Scores of queries m to m + kQueries - 1 and `count` vectors of keys from `vector` on, as many as make whole tiles:
// those of FactoredTile, with their bits.
template <size_t kTerms, size_t kQueries, size_t kPairs, class D>
HWY_NOINLINE void PipelinedTiles(D d, const FactoredScoreArgs& args, size_t m, size_t vector, size_t count,
                                 LinesAhead& ahead) {
  using From = ScoresFrom<kPairs, kQueries>;
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m);
  const size_t lanes = hn::Lanes(d), size = lanes * args.num_hiddens;  // of a vector of keys
  From first{args.query_exps + row * args.query_exps_stride,
             args.key_exps + vector * size,
             args.query_exps_stride,
             static_cast<std::ptrdiff_t>(size),
             args.folded_w_v,
             args.folded_w_v + folded_constants_at(args.num_hiddens)};
  float* scores = args.scores + row * args.scores_stride + vector * lanes;
  // Fewer queries prefetch nothing.
  const size_t lines_per_group = kQueries == 4 ? ahead.per_group : 0;
  std::conditional_t<kQueries == 4, PrefetchLines, PrefetchLines&> lines = ahead.lines;  // in registers
  for (size_t v = 0; v + From::kVectors <= count; v += From::kVectors) {
    PipelinedTile<kTerms>(d, args, first, lines, lines_per_group, scores + v * lanes);
    first.key_exps += From::kVectors * size;
  }
  if constexpr (kQueries == 4) ahead.lines = lines;
}

// The same of one query, two or four; all vectors, but of one query the last of an odd number.
template <size_t kTerms, class D>
HWY_INLINE void PipelinedVectors(D d, const FactoredScoreArgs& args, size_t m, size_t num_rows, size_t vector,
                                 size_t count, LinesAhead& ahead) {
  if (num_rows == 4) return PipelinedTiles<kTerms, 4, 2>(d, args, m, vector, count, ahead);
  if (num_rows == 2) {
    PipelinedTiles<kTerms, 2, 2>(d, args, m, vector, count, ahead);
    if (count % 2 != 0) PipelinedTiles<kTerms, 2, 1>(d, args, m, vector + count - 1, 1, ahead);
    return;
  }
  PipelinedTiles<kTerms, 1, 2>(d, args, m, vector, count, ahead);
  if (count % 4 >= 2) PipelinedTiles<kTerms, 1, 1>(d, args, m, vector + count / 4 * 4, 2, ahead);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
