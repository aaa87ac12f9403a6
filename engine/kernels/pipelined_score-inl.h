// The additive score of four queries and one vector of keys by eight terms per division, software-pipelined: for AVX2,
// whose 16 registers leave compilers no room to find such an order themselves.
//
// A group of eight terms (score_group-inl.h) is a chain of some 40 cycles, of which a CPU with two multipliers could
// begin one in 12. Four queries one after another leave it to the CPU to overlap their chains, for which it would have
// to look further ahead than it does. Here two queries go together, and between the first operations of their group
// stand the last ones of the two queries before, from the product of the denominators on. The two share what they load
// of alphas. That is the order of the program (simd::InOrder); the operations of a score are those of AddGroup, and so
// are its bits.
//
// EPYC (Zen 3), attend turns, of the time of FactoredTile<8, 4, 1, false>: --layer additive --num-hiddens 256 --shape
// 1,128,512,256 0.951 (the score alone 0.90), --num-hiddens 128 --shape 2,256,1024,192,256,256 0.963.
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
#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

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
  const V alpha = hn::Set(d, pair.alphas[u]), key_exp = hn::Load(d, pair.key_exps + u * hn::Lanes(d));
  a = hn::MulAdd(hn::Set(d, pair.a[u]), key_exp, alpha);
  b = hn::MulAdd(hn::Set(d, pair.b[u]), key_exp, alpha);
  simd::InOrder(d, a, b);
}

// sum 1/tau of units u to u + 3 of two queries; and meanwhile, of one whose fractions are done, *sum += its eight terms
// by constants.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void FourTermsOfTwo(D d, const QueryPair& pair, size_t u, V& na, V& da, V& nb, V& db,
                               const Fractions<D>& done, const float* HWY_RESTRICT constants, float* sum) {
  V a0, a1, a2, a3, b0, b1, b2, b3;
  TauOfTwo(d, pair, u, a0, b0);
  TauOfTwo(d, pair, u + 1, a1, b1);
  V denominator = hn::Mul(done.d0, done.d1), other = hn::Mul(done.n1, done.d0);
  simd::InOrder(d, denominator, other);
  V da01 = hn::Mul(a0, a1), na01 = hn::Add(a0, a1), db01 = hn::Mul(b0, b1), nb01 = hn::Add(b0, b1);
  simd::InOrder(d, da01, na01, db01, nb01);
  V numerator = hn::MulSub(hn::Set(d, constants[kSumOfEight]), denominator, other);
  simd::InOrder(d, numerator);
  TauOfTwo(d, pair, u + 2, a2, b2);
  numerator = hn::NegMulAdd(done.n0, done.d1, numerator);
  simd::InOrder(d, numerator);
  TauOfTwo(d, pair, u + 3, a3, b3);
  V quotient = hn::Div(numerator, denominator);
  V da23 = hn::Mul(a2, a3), na23 = hn::Add(a2, a3), db23 = hn::Mul(b2, b3), nb23 = hn::Add(b2, b3);
  simd::InOrder(d, da23, na23, db23, nb23);
  da = hn::Mul(da01, da23);
  const V more_a = hn::Mul(na23, da01);
  db = hn::Mul(db01, db23);
  const V more_b = hn::Mul(nb23, db01);
  na = hn::MulAdd(na01, da23, more_a);
  nb = hn::MulAdd(nb01, db23, more_b);
  simd::InOrder(d, na, da, nb, db);
  V total = hn::MulAdd(hn::Set(d, constants[kFactor]), quotient, hn::Load(d, sum));
  simd::InOrder(d, total);
  hn::Store(total, d, sum);
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
  HWY_ALIGN float block[4 * hn::MaxLanes(D())] = {};  // at first what rounding took from the last one
  HWY_ALIGN float sum[4 * hn::MaxLanes(D())] = {};

  HWY_INLINE void EndBlock(D d, size_t i) {
    float* HWY_RESTRICT s = block + i * hn::Lanes(d);
    float* HWY_RESTRICT total = sum + i * hn::Lanes(d);
    hn::Vec<D> new_total = hn::Load(d, total), carry;
    AddBlock(d, hn::Load(d, s), new_total, carry);
    hn::Store(new_total, d, total);
    hn::Store(carry, d, s);
  }
};

// FactoredTile<8, 4, 1, false>.
template <class D>
HWY_NOINLINE void PipelinedTile(D d, const FactoredScoreArgs& args, size_t m, size_t panel, size_t lane,
                                LinesAhead& ahead) {
  using V = hn::Vec<D>;
  constexpr size_t kBlock = kGroupsPerBlock<8>;
  static constexpr float kNoTerms[16] = {};  // of constants
  const size_t lanes = hn::Lanes(d), groups = args.num_hiddens / 8, rest = args.num_hiddens % 8;
  const std::ptrdiff_t stride = args.query_exps_stride, row = static_cast<std::ptrdiff_t>(m);
  const float* HWY_RESTRICT query_exps = args.query_exps + row * stride;
  const float* HWY_RESTRICT key_exps = args.key_exps + (panel * PanelWidth(d) + lane) * args.num_hiddens;
  const float* HWY_RESTRICT alphas = args.folded_w_v;
  const float* HWY_RESTRICT constants = alphas + RoundUpTo8(args.num_hiddens);
  PrefetchLines lines = ahead.lines;  // in registers
  const auto fetch = [&] {
    for (size_t line = 0; line < ahead.per_group; ++line) lines.fetch();
  };
  BlockSums<D> sums;
  float* first_two = sums.block;
  float* last_two = sums.block + 2 * lanes;
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  Fractions<D> a{zero, one, zero, one}, b = a;
  const float* HWY_RESTRICT constants_before = kNoTerms;
  for (size_t group = 0; group < groups; ++group) {
    fetch();
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
  if (rest != 0) fetch();
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
  ahead.lines = lines;
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
