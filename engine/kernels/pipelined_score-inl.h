// The additive score of four queries and one vector of keys by eight terms per division, software-pipelined: for AVX2,
// whose 16 registers leave compilers no room to find such an order themselves.
//
// By arithmetic, a group of eight terms (score_group-inl.h) is a chain of some 40 cycles, of which a CPU with two
// multipliers could begin one in 12. Four queries one after another leave it to the CPU to overlap their chains, for
// which it would have to look further ahead than it does. Here two queries go together, and between the first
// operations of their group stand the last ones of the two queries before, from the product of the denominators on. The
// two share what they load of alphas. That is the order of the program (simd/in_order-inl.h); the operations of a score
// are those of AddGroup, and so are its bits.
//
// EPYC (Zen 3), attend turns --layer additive, relative to FactoredTile<8, 4, 1, false>, in quiet turns and beside
// others' threads: --num-hiddens 256 --shape 1,128,512,256 0.91 and 0.93, of which our own projections are 0.01;
// --num-hiddens 128 --shape 2,256,1024,192,256,256 0.91 and 0.94. With empty asm statements between Highway's own
// operations instead, between which compilers copied registers, 0.96 and 1.04.
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
#include "engine/kernels/score_group-inl.h"
#include "engine/simd/in_order-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX2 && !defined(HWY_DISABLE_BMI2_FMA)  // simd::kSumsStay

// 1/tau of four and four terms of a query, as fractions.
template <class D>
struct Fractions {
  hn::Vec<D> n0, d0, n1, d1;
};

// Two queries' exponentials of a group, and what they share.
struct QueryPair {
  const float* HWY_RESTRICT a;
  const float* HWY_RESTRICT b;
  const float* HWY_RESTRICT key_exps;
  const float* HWY_RESTRICT alphas;
};

// tau of unit u.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void TauOfTwo(D d, const QueryPair& pair, size_t u, V& a, V& b) {
  const float* key_exp = pair.key_exps + u * hn::Lanes(d);
  const V alpha = simd::SetInOrder(d, pair.alphas + u);
  a = simd::MulLoadAddInOrder(d, key_exp, alpha, simd::SetInOrder(d, pair.a + u));
  b = simd::MulLoadAddInOrder(d, key_exp, alpha, simd::SetInOrder(d, pair.b + u));
}

// sum 1/tau of units u to u + 3 of two queries; and meanwhile, of one whose fractions are done, *sum += its eight terms
// by constants.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void FourTermsOfTwo(D d, const QueryPair& pair, size_t u, V& na, V& da, V& nb, V& db,
                               const Fractions<D>& done, const float* HWY_RESTRICT constants, float* sum) {
  V a0, a1, a2, a3, b0, b1, b2, b3;
  TauOfTwo(d, pair, u, a0, b0);
  TauOfTwo(d, pair, u + 1, a1, b1);
  const V denominator = simd::MulInOrder(d, done.d0, done.d1), other = simd::MulInOrder(d, done.n1, done.d0);
  const V da01 = simd::MulInOrder(d, a0, a1), na01 = simd::AddInOrder(d, a0, a1);
  const V db01 = simd::MulInOrder(d, b0, b1), nb01 = simd::AddInOrder(d, b0, b1);
  V numerator = simd::MulSubInOrder(d, simd::SetInOrder(d, constants + kSumOfEight), denominator, other);
  TauOfTwo(d, pair, u + 2, a2, b2);
  numerator = simd::NegMulAddInOrder(d, done.n0, done.d1, numerator);
  TauOfTwo(d, pair, u + 3, a3, b3);
  const V quotient = simd::DivInOrder(d, numerator, denominator);
  const V da23 = simd::MulInOrder(d, a2, a3), na23 = simd::AddInOrder(d, a2, a3);
  const V db23 = simd::MulInOrder(d, b2, b3), nb23 = simd::AddInOrder(d, b2, b3);
  da = simd::MulInOrder(d, da01, da23);
  const V more_a = simd::MulInOrder(d, na23, da01);
  db = simd::MulInOrder(d, db01, db23);
  const V more_b = simd::MulInOrder(d, nb23, db01);
  na = simd::MulAddInOrder(d, na01, da23, more_a);
  nb = simd::MulAddInOrder(d, nb01, db23, more_b);
  const V factor = simd::SetInOrder(d, constants + kFactor);
  hn::Store(simd::MulAddLoadInOrder(d, factor, quotient, sum), d, sum);
}

// *sum += the eight terms of a query whose fractions are done.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void FinishTerms(D d, const Fractions<D>& done, const float* HWY_RESTRICT constants, float* sum) {
  const V denominator = hn::Mul(done.d0, done.d1);
  const V numerator = hn::MulSub(hn::Set(d, constants[kSumOfEight]), denominator, hn::Mul(done.n1, done.d0));
  const V quotient = hn::Div(hn::NegMulAdd(done.n0, done.d1, numerator), denominator);
  hn::Store(hn::MulAdd(hn::Set(d, constants[kFactor]), quotient, hn::Load(d, sum)), d, sum);
}

// A group of two queries, a and b; and the last operations of the two before, whose fractions then become those of a
// and b.
template <class D>
HWY_INLINE void GroupOfTwo(D d, const QueryPair& pair, Fractions<D>& a, Fractions<D>& b,
                           const float* HWY_RESTRICT constants, float* sums) {
  Fractions<D> next_a, next_b;
  FourTermsOfTwo(d, pair, 0, next_a.n0, next_a.d0, next_b.n0, next_b.d0, a, constants, sums);
  FourTermsOfTwo(d, pair, 4, next_a.n1, next_a.d1, next_b.n1, next_b.d1, b, constants, sums + hn::Lanes(d));
  a = next_a;
  b = next_b;
}

// Four sums, in memory: half of the registers would not do for both them and the terms of two queries.
template <class D>
struct BlockSums {
  HWY_ALIGN float block[4 * hn::MaxLanes(D())];  // at first what rounding took from the last one
  HWY_ALIGN float sum[4 * hn::MaxLanes(D())];

  HWY_INLINE void Clear(D d) {
    // Of no value that compilers know: else it became `rep stos`.
    const hn::Vec<D> zero = simd::MulInOrder(d, hn::Zero(d), hn::Zero(d));
    for (size_t i = 0; i < 4 * hn::Lanes(d); i += hn::Lanes(d)) {
      hn::Store(zero, d, block + i);
      hn::Store(zero, d, sum + i);
    }
  }
  HWY_INLINE void EndBlock(D d, size_t i) {
    float* HWY_RESTRICT s = block + i * hn::Lanes(d);
    float* HWY_RESTRICT total = sum + i * hn::Lanes(d);
    hn::Vec<D> new_total = hn::Load(d, total), carry;
    AddBlock(d, hn::Load(d, s), new_total, carry);
    hn::Store(new_total, d, total);
    hn::Store(carry, d, s);
  }
};

// FactoredTile<8, 4, 1, false>, with its bits.
template <class D>
HWY_NOINLINE void PipelinedTile(D d, const FactoredScoreArgs& args, size_t m, size_t panel, size_t lane,
                                LinesAhead& ahead) {
  using V = hn::Vec<D>;
  constexpr size_t kBlock = kGroupsPerBlock<8>;
  static constexpr float kNoTerms[16] = {};  // constants by which fractions add nothing
  const size_t lanes = hn::Lanes(d), groups = args.num_hiddens / 8, rest = args.num_hiddens % 8;
  const std::ptrdiff_t stride = args.query_exps_stride, row = static_cast<std::ptrdiff_t>(m);
  const float* HWY_RESTRICT query_exps = args.query_exps + row * stride;
  const float* HWY_RESTRICT key_exps = args.key_exps + (panel * PanelWidth(d) + lane) * args.num_hiddens;
  const float* HWY_RESTRICT alphas = args.folded_w_v;
  const float* HWY_RESTRICT constants = alphas + RoundUpTo8(args.num_hiddens);
  PrefetchLines lines = ahead.lines;  // in registers
  BlockSums<D> sums;
  sums.Clear(d);
  float* first_two = sums.block;
  float* last_two = sums.block + 2 * lanes;
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  Fractions<D> a{zero, one, zero, one}, b = a;
  const float* HWY_RESTRICT constants_before = kNoTerms;
  for (size_t group = 0; group < groups; ++group) {
    for (size_t line = 0; line < ahead.per_group; ++line) lines.fetch();
    GroupOfTwo(d, {query_exps, query_exps + stride, simd::ReadAnew(key_exps), simd::ReadAnew(alphas)}, a, b,
               constants_before, last_two);
    if (group % kBlock == 0) {  // the last two queries' block before ends here, the first two's with its last group
      sums.EndBlock(d, 2);
      sums.EndBlock(d, 3);
    }
    GroupOfTwo(d, {query_exps + 2 * stride, query_exps + 3 * stride, simd::ReadAnew(key_exps), simd::ReadAnew(alphas)},
               a, b, constants, first_two);
    if (group % kBlock == kBlock - 1) {
      sums.EndBlock(d, 0);
      sums.EndBlock(d, 1);
    }
    constants_before = constants;
    query_exps += 8;
    key_exps += 8 * lanes;
    alphas += 8;
    constants += 16;
  }
  FinishTerms(d, a, constants_before, last_two);
  FinishTerms(d, b, constants_before, last_two + lanes);
  const bool in_block = groups % kBlock != 0;
  if (!in_block) {
    sums.EndBlock(d, 2);
    sums.EndBlock(d, 3);
  }
  ahead.lines = lines;
  for (size_t line = 0; rest != 0 && line < ahead.per_group; ++line) ahead.lines.fetch();
  for (size_t i = 0; i < 4; ++i) {
    if (rest != 0) {
      const Group<false> group{query_exps + static_cast<std::ptrdiff_t>(i) * stride, key_exps, alphas, constants, 0};
      V s = hn::Load(d, sums.block + i * lanes);
      AddGroup<8>(d, group, rest, s);
      hn::Store(s, d, sums.block + i * lanes);
    }
    if (rest != 0 || in_block) sums.EndBlock(d, i);
    const V score = hn::Add(hn::Load(d, sums.sum + i * lanes), hn::Load(d, sums.block + i * lanes));
    float* to = args.scores + (row + static_cast<std::ptrdiff_t>(i)) * args.scores_stride + panel * PanelWidth(d);
    hn::Store(hn::Mul(hn::Set(d, args.w_v_scale), score), d, to + lane);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
