// The additive score of four queries and one vector of keys, or one query and two, by eight terms per division or by
// three, software-pipelined: for AVX2, whose 16 registers leave compilers no room to find such an order themselves.
//
// By arithmetic, a group of eight terms (score_group-inl.h) is a chain of some 40 cycles, of which a CPU with two
// multipliers could begin one in 12. Scores one after another leave it to the CPU to overlap their chains, for which it
// would have to look further ahead than it does. Here two scores go together, and between the first operations of their
// group stand the last ones of the two before, from the product of the denominators on. The two share what they load of
// alphas; by three, of keys or of the query, too. That is the order of the program (simd/in_order-inl.h); operations
// and bits of a score are those of AddGroup.
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
// by eight terms 24. EPYC (Zen 4) without AVX-512, us, additive_score/*_prepared_eight and _three: m128_n512_u256 1317
// and 1196, m1_n100_u256 2.29 and 2.10; by FactoredTile<3> 1572 and 2.66. Where the operations of one score came before
// those of the other, 1240; where each score loaded all it needs, 1230.
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

// What is left to do of a group by eight: sum 1/tau of four terms and of the next four, as fractions.
template <class D>
struct Fractions {
  hn::Vec<D> n0, d0, n1, d1;

  static HWY_INLINE Fractions OfNoTerms(D d) { return {hn::Zero(d), hn::Set(d, 1.0f), hn::Zero(d), hn::Set(d, 1.0f)}; }
};

// What is left to do of a group by three: sum 1/tau of its six first terms and of the last two.
template <class D>
struct Quotients {
  hn::Vec<D> q05, q67;

  static HWY_INLINE Quotients OfNoTerms(D d) { return {hn::Zero(d), hn::Zero(d)}; }
};

template <size_t kTerms, class D>
using LeftOfGroup = std::conditional_t<kTerms == 3, Quotients<D>, Fractions<D>>;

// What two scores, a and b, have from a group of hidden units on. kOneQuery: theirs; else they have the same keys.
template <bool kOneQuery>
struct TwoScores {
  const float* HWY_RESTRICT a;
  const float* HWY_RESTRICT b;
  const float* HWY_RESTRICT a_keys;
  const float* HWY_RESTRICT b_keys;
  const float* HWY_RESTRICT alphas;
};

// The same of all scores of a tile: two pairs of queries and one vector of keys, or one query and one pair of vectors.
template <size_t kPairs>
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
  HWY_INLINE TwoScores<kPairs == 1> pair(size_t p) const {
    if constexpr (kPairs == 1) return {query_exps, query_exps, key_exps, key_exps + stride, alphas};
    const float* a = query_exps + static_cast<std::ptrdiff_t>(2 * p) * stride;
    return {a, a + stride, key_exps, key_exps, alphas};
  }
};

// tau of unit u.
template <class D, class Two, class V = hn::Vec<D>>
HWY_INLINE void TauOfTwo(D d, const Two& two, size_t u, V alpha, V& a, V& b) {
  a = simd::MulLoadAddInOrder(d, two.a_keys + u * hn::Lanes(d), alpha, simd::SetInOrder(d, two.a + u));
  b = simd::MulLoadAddInOrder(d, two.b_keys + u * hn::Lanes(d), alpha, simd::SetInOrder(d, two.b + u));
}

// sum 1/tau of units u to u + 3 of two scores; and meanwhile, of one whose fractions are done, *sum += its eight terms
// by constants.
template <class D, class Two, class V = hn::Vec<D>>
HWY_INLINE void FourTermsOfTwo(D d, const Two& two, size_t u, V& na, V& da, V& nb, V& db, const Fractions<D>& done,
                               const float* HWY_RESTRICT constants, float* sum) {
  V a0, a1, a2, a3, b0, b1, b2, b3;
  const V alpha0 = simd::SetInOrder(d, two.alphas + u);
  TauOfTwo(d, two, u, alpha0, a0, b0);
  const V alpha1 = simd::SetInOrder(d, two.alphas + u + 1);
  TauOfTwo(d, two, u + 1, alpha1, a1, b1);
  const V nb01 = simd::AddInOrder(d, b0, b1), db01 = simd::MulInOrder(d, b0, b1);
  const V alpha2 = simd::SetInOrder(d, two.alphas + u + 2);
  const V other = simd::MulInOrder(d, done.n1, done.d0);
  const V da01 = simd::MulInOrder(d, a0, a1);
  const V alpha3 = simd::SetInOrder(d, two.alphas + u + 3);
  const V na01 = simd::AddInOrder(d, a0, a1);
  const V denominator = simd::MulInOrder(d, done.d0, done.d1);
  TauOfTwo(d, two, u + 2, alpha2, a2, b2);
  const V numerator = simd::MulAddInOrder(d, done.n0, done.d1, other);
  TauOfTwo(d, two, u + 3, alpha3, a3, b3);
  const V da23 = simd::MulInOrder(d, a2, a3);
  const V quotient = simd::DivInOrder(d, numerator, denominator);
  const V na23 = simd::AddInOrder(d, a2, a3), nb23 = simd::AddInOrder(d, b2, b3);
  const V more_a = simd::MulInOrder(d, na23, da01);
  da = simd::MulInOrder(d, da01, da23);
  const V db23 = simd::MulInOrder(d, b2, b3);
  db = simd::MulInOrder(d, db01, db23);
  const V more_b = simd::MulInOrder(d, nb23, db01);
  na = simd::MulAddInOrder(d, na01, da23, more_a);
  nb = simd::MulAddInOrder(d, nb01, db23, more_b);
  const V term = simd::SubInOrder(d, simd::SetInOrder(d, constants + kSumOfEight), quotient);
  hn::Store(simd::MulAddLoadInOrder(d, simd::SetInOrder(d, constants + kFactor), term, sum), d, sum);
}

// *sum += the eight terms of a score whose fractions are done.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void FinishTerms(D d, const Fractions<D>& done, const float* HWY_RESTRICT constants, float* sum) {
  const V denominator = hn::Mul(done.d0, done.d1);
  const V numerator = hn::MulAdd(done.n0, done.d1, hn::Mul(done.n1, done.d0));
  const V term = hn::Sub(hn::Set(d, constants[kSumOfEight]), hn::Div(numerator, denominator));
  hn::Store(hn::MulAdd(hn::Set(d, constants[kFactor]), term, hn::Load(d, sum)), d, sum);
}

// A group of two scores; and the last operations of the two before, of which a and b are what is left, and then become
// what is left of these.
template <class D, class Two>
HWY_INLINE void GroupOfTwo(D d, const Two& two, Fractions<D>& a, Fractions<D>& b, const float* HWY_RESTRICT constants,
                           float* sums) {
  Fractions<D> next_a, next_b;
  FourTermsOfTwo(d, two, 0, next_a.n0, next_a.d0, next_b.n0, next_b.d0, a, constants, sums);
  FourTermsOfTwo(d, two, 4, next_a.n1, next_a.d1, next_b.n1, next_b.d1, b, constants, sums + hn::Lanes(d));
  a = next_a;
  b = next_b;
}

// By three: tau of unit u, with one load for both of what both need.
template <class D, bool kOneQuery, class V = hn::Vec<D>>
HWY_INLINE void TauByThree(D d, const TwoScores<kOneQuery>& two, size_t u, V& a, V& b) {
  const V alpha = simd::SetInOrder(d, two.alphas + u);
  if constexpr (kOneQuery) {
    const V query = simd::SetInOrder(d, two.a + u);
    a = simd::MulAddOverInOrder(d, simd::LoadInOrder(d, two.a_keys + u * hn::Lanes(d)), query, alpha);
    b = simd::MulAddOverInOrder(d, simd::LoadInOrder(d, two.b_keys + u * hn::Lanes(d)), query, alpha);
  } else {
    const V keys = simd::LoadInOrder(d, two.a_keys + u * hn::Lanes(d));
    a = simd::MulAddOverInOrder(d, simd::SetInOrder(d, two.a + u), keys, alpha);
    b = simd::MulAddOverInOrder(d, simd::SetInOrder(d, two.b + u), keys, alpha);
  }
}

// Of two tau: their sum, which is the numerator, and their product.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void FractionsOfTwo(D d, V a0, V a1, V b0, V b1, V& na, V& da, V& nb, V& db) {
  na = simd::AddInOrder(d, a0, a1);
  nb = simd::AddInOrder(d, b0, b1);
  da = simd::MulInOrder(d, a0, a1);
  db = simd::MulInOrder(d, b0, b1);
}

// The same and a third tau.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void AddThird(D d, V a2, V b2, V& na, V& da, V& nb, V& db) {
  na = simd::MulAddOverInOrder(d, na, a2, da);
  nb = simd::MulAddOverInOrder(d, nb, b2, db);
  da = simd::MulInOrder(d, da, a2);
  db = simd::MulInOrder(d, db, b2);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void FinishTerms(D d, const Quotients<D>& done, const float* HWY_RESTRICT constants, float* sum) {
  const V sum_of_eight = simd::SetInOrder(d, constants + kSumOfEight);
  const V term = simd::SubInOrder(d, simd::SubInOrder(d, sum_of_eight, done.q67), done.q05);
  hn::Store(simd::MulAddLoadInOrder(d, simd::SetInOrder(d, constants + kFactor), term, sum), d, sum);
}

template <class D, class Two>
HWY_INLINE void GroupOfTwo(D d, const Two& two, Quotients<D>& a, Quotients<D>& b, const float* HWY_RESTRICT constants,
                           float* sums) {
  using V = hn::Vec<D>;
  V a0, a1, a2, b0, b1, b2, na, da, nb, db;
  TauByThree(d, two, 0, a0, b0);
  TauByThree(d, two, 1, a1, b1);
  TauByThree(d, two, 2, a2, b2);
  FractionsOfTwo(d, a0, a1, b0, b1, na, da, nb, db);
  TauByThree(d, two, 3, a0, b0);
  AddThird(d, a2, b2, na, da, nb, db);
  TauByThree(d, two, 4, a1, b1);
  FinishTerms(d, a, constants, sums);
  TauByThree(d, two, 5, a2, b2);
  FinishTerms(d, b, constants, sums + hn::Lanes(d));
  const V a02 = simd::DivInOrder(d, na, da), b02 = simd::DivInOrder(d, nb, db);
  FractionsOfTwo(d, a0, a1, b0, b1, na, da, nb, db);
  TauByThree(d, two, 6, a0, b0);
  AddThird(d, a2, b2, na, da, nb, db);
  TauByThree(d, two, 7, a1, b1);
  const V a35 = simd::DivInOrder(d, na, da), b35 = simd::DivInOrder(d, nb, db);
  FractionsOfTwo(d, a0, a1, b0, b1, na, da, nb, db);
  a.q05 = simd::AddInOrder(d, a02, a35);
  b.q05 = simd::AddInOrder(d, b02, b35);
  a.q67 = simd::DivInOrder(d, na, da);
  b.q67 = simd::DivInOrder(d, nb, db);
}

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

// A group of all scores: a and b are at first what is left of the last pair and the group before, whose constants
// `before` are, and become that of this. With those, a block before ends, if kFirst.
template <bool kFirst, size_t kPairs, class D, class Left>
HWY_INLINE void GroupOfAll(D d, const ScoresFrom<kPairs>& group, Left& a, Left& b, const float* before,
                           BlockSums<D, 2 * kPairs>& sums) {
  GroupOfTwo(d, group.pair(0), a, b, before, sums.block + 2 * (kPairs - 1) * hn::Lanes(d));
  if constexpr (kFirst) sums.EndBlocks(d);
  if constexpr (kPairs == 2) GroupOfTwo(d, group.pair(1), a, b, group.constants, sums.block);
}

// Scores from their first group on, score i at scores + i * scores_stride.
template <size_t kTerms, size_t kPairs, class D>
HWY_INLINE void PipelinedTile(D d, const FactoredScoreArgs& args, ScoresFrom<kPairs> next, PrefetchLines& lines,
                              size_t lines_per_group, float* scores, std::ptrdiff_t scores_stride) {
  using V = hn::Vec<D>;
  static_assert(kGroupsPerBlock<kTerms> == 4);
  static constexpr float kNoTerms[kGroupConstants] = {};  // constants by which fractions add nothing
  const size_t lanes = hn::Lanes(d), groups = args.num_hiddens / 8, rest = args.num_hiddens % 8;
  BlockSums<D, 2 * kPairs> sums;
  sums.Clear(d);
  LeftOfGroup<kTerms, D> a = LeftOfGroup<kTerms, D>::OfNoTerms(d), b = a;
  const float* before = kNoTerms;
  for (size_t block = 0; block < groups / 4; ++block) {
    for (size_t line = 0; line < 4 * lines_per_group; ++line) lines.fetch();
    GroupOfAll<true>(d, next, a, b, before, sums);
    GroupOfAll<false>(d, next.group(d, 1), a, b, next.constants, sums);
    GroupOfAll<false>(d, next.group(d, 2), a, b, next.group(d, 1).constants, sums);
    GroupOfAll<false>(d, next.group(d, 3), a, b, next.group(d, 2).constants, sums);
    before = next.group(d, 3).constants;
    next = next.group(d, 4);
  }
  const size_t left = groups % 4;
  for (size_t line = 0; line < (rest == 0 ? left : left + 1) * lines_per_group; ++line) lines.fetch();
  for (size_t i = 0; i < left; ++i) {
    if (i == 0) {
      GroupOfAll<true>(d, next, a, b, before, sums);
    } else {
      GroupOfAll<false>(d, next, a, b, before, sums);
    }
    before = next.constants;
    next = next.group(d, 1);
  }
  FinishTerms(d, a, before, sums.block + 2 * (kPairs - 1) * lanes);
  FinishTerms(d, b, before, sums.block + (2 * kPairs - 1) * lanes);
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
  ScoresFrom<2> first{args.query_exps + row * args.query_exps_stride,
                      args.key_exps + panel * PanelWidth(d) * args.num_hiddens, args.query_exps_stride, args.folded_w_v,
                      args.folded_w_v + folded_constants_at(args.num_hiddens)};
  float* scores = args.scores + row * args.scores_stride + panel * PanelWidth(d);
  PrefetchLines lines = ahead.lines;  // in registers
  for (size_t i = 0; i < count; ++i) {
    PipelinedTile<kTerms>(d, args, first, lines, ahead.per_group, scores + i * hn::Lanes(d), args.scores_stride);
    first.key_exps += hn::Lanes(d) * args.num_hiddens;
  }
  ahead.lines = lines;
}

// FactoredTile<kTerms, 1, 2, false>, with its bits.
template <size_t kTerms, class D>
HWY_NOINLINE void PipelinedRow(D d, const FactoredScoreArgs& args, size_t m, size_t panel, LinesAhead& ahead) {
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(m), lanes = static_cast<std::ptrdiff_t>(hn::Lanes(d));
  const ScoresFrom<1> first{args.query_exps + row * args.query_exps_stride,
                            args.key_exps + panel * PanelWidth(d) * args.num_hiddens,
                            lanes * static_cast<std::ptrdiff_t>(args.num_hiddens), args.folded_w_v,
                            args.folded_w_v + folded_constants_at(args.num_hiddens)};
  float* scores = args.scores + row * args.scores_stride + panel * PanelWidth(d);
  PipelinedTile<kTerms>(d, args, first, ahead.lines, 0, scores, lanes);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
