// A group of eight hidden units of the additive score, for one query and one vector of keys: terms over common
// denominators, and their sum. The arithmetic is explained in factored_score-inl.h.
#if defined(ATTEND_KERNELS_SCORE_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_SCORE_GROUP_INL_H_
#undef ATTEND_KERNELS_SCORE_GROUP_INL_H_
#else
#define ATTEND_KERNELS_SCORE_GROUP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "engine/kernels/additive_score.h"
#include "engine/kernels/prefetch.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// Groups of eight hidden units between compensated additions: four quotients, or one group; of three terms per division
// four groups, too, where sums wait in memory (pipelined_score-inl.h).
template <size_t kTerms>
static constexpr size_t kGroupsPerBlock = kTerms == 3  ? (simd::kSumsStay ? 4 : 1)
                                          : kTerms > 2 ? kTerms / 2
                                                       : 1;

// A group of eight hidden units of one query and one vector of keys. kNarrow: a vector that is kept narrow, 0 in lanes
// beyond.
template <bool kNarrow>
struct Group {
  const float* HWY_RESTRICT query_exps;  // alpha e^2a
  const float* HWY_RESTRICT key_exps;    // e^2b, a vector for each unit
  const float* HWY_RESTRICT alphas;
  const float* HWY_RESTRICT constants;
  size_t narrow;  // its width

  template <class D>
  HWY_INLINE size_t width(D d) const {
    return kNarrow ? narrow : hn::Lanes(d);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> key_exp(D d, size_t u) const {
    if constexpr (kNarrow) return simd::LoadTail(d, key_exps + u * narrow, narrow);
    return hn::Load(d, key_exps + u * hn::Lanes(d));
  }
};

// sum 1/tau of kTerms units from unit u of the group on, as numerator / denominator.
template <size_t kTerms, class D, class G, class V = hn::Vec<D>>
HWY_INLINE void Fraction(D d, const G& group, size_t u, V& numerator, V& denominator) {
  static_assert(kTerms == 1 || kTerms == 2 || kTerms == 4);
  if constexpr (kTerms == 1) {
    // Broadcasts of query exponentials are part of the multiply-adds; those of alphas serve several queries.
    const V alpha = simd::BroadcastLoad(d, group.alphas + u);
    denominator = hn::MulAdd(hn::Set(d, group.query_exps[u]), group.key_exp(d, u), alpha);
    numerator = hn::Set(d, 1.0f);
  } else {
    V n0, d0, n1, d1;
    Fraction<kTerms / 2>(d, group, u, n0, d0);
    Fraction<kTerms / 2>(d, group, u + kTerms / 2, n1, d1);
    denominator = hn::Mul(d0, d1);
    numerator = kTerms == 2 ? hn::Add(d0, d1) : hn::MulAdd(n0, d1, hn::Mul(n1, d0));
  }
}

// The same of three units.
template <class D, class G, class V = hn::Vec<D>>
HWY_INLINE V QuotientOfThree(D d, const G& group, size_t u) {
  V n, d01, one, tau;
  Fraction<2>(d, group, u, n, d01);
  Fraction<1>(d, group, u + 2, one, tau);
  return hn::Div(hn::MulAdd(n, tau, d01), hn::Mul(d01, tau));
}

// sum += w tanh(a + b) of kTerms units from unit u of the group on, by one division. Of eight terms, c - n / d. Of
// fewer, (c d - n) / d, with the sum in n added one part after the other, because c d cancels the first to within what
// is small, or exactly, where tanh is near -1. That is one multiplication more and one rounding less.
template <size_t kTerms, class D, class G, class V = hn::Vec<D>>
HWY_INLINE void AddTerms(D d, const G& group, size_t u, V& sum) {
  constexpr size_t kFirst = kTerms == 8 ? kSumOfEight : kTerms == 4 ? kSumsOfFour : kTerms == 2 ? kSumsOfTwo : 0;
  const V c = hn::Set(d, group.constants[kFirst + u / kTerms]);
  V n0, d0, n1, d1, term;
  if constexpr (kTerms == 1) {
    Fraction<1>(d, group, u, n0, d0);
    term = hn::Div(hn::MulSub(c, d0, n0), d0);
  } else {
    Fraction<kTerms / 2>(d, group, u, n0, d0);
    Fraction<kTerms / 2>(d, group, u + kTerms / 2, n1, d1);
    const V denominator = hn::Mul(d0, d1);
    if constexpr (kTerms == 2) {
      term = hn::Div(hn::Sub(hn::MulSub(c, denominator, d0), d1), denominator);
    } else if constexpr (kTerms == 4) {
      term = hn::Div(hn::NegMulAdd(n0, d1, hn::MulSub(c, denominator, hn::Mul(n1, d0))), denominator);
    } else {
      term = hn::Sub(c, hn::Div(hn::MulAdd(n0, d1, hn::Mul(n1, d0)), denominator));
    }
  }
  sum = hn::MulAdd(hn::Set(d, group.constants[kFactor]), term, sum);
}

// sum += w tanh(a + b) of all eight units by three divisions. Fewer products round than by one: terms chosen group by
// group to that end were wrong by 2.8e-7 sum|w| with 40 units, by one division 4.4e-7
// (tests/kernels/factored_score_error_test.cc).
template <class D, class G, class V = hn::Vec<D>>
HWY_INLINE void AddByThree(D d, const G& group, V& sum) {
  V n67, d67;
  const V q02 = QuotientOfThree(d, group, 0), q35 = QuotientOfThree(d, group, 3);
  Fraction<2>(d, group, 6, n67, d67);
  const V term = hn::Sub(hn::Sub(hn::Set(d, group.constants[kSumOfEight]), hn::Div(n67, d67)), hn::Add(q02, q35));
  sum = hn::MulAdd(hn::Set(d, group.constants[kFactor]), term, sum);
}

// sum += the first count <= 8 terms, kTerms at a time; what is left in halves. kTerms 3: eight as three, three and
// two, fewer in twos.
template <size_t kTerms, class D, class G, class V = hn::Vec<D>>
HWY_INLINE void AddGroup(D d, const G& group, size_t count, V& sum) {
  if constexpr (kTerms == 3) {
    if (count == 8) return AddByThree(d, group, sum);
    AddGroup<2>(d, group, count, sum);
  } else {
    size_t u = 0;
    for (; u + kTerms <= count; u += kTerms) AddTerms<kTerms>(d, group, u, sum);
    if constexpr (kTerms > 4) {
      if (count & 4) AddTerms<4>(d, group, 0, sum);
      u = count & 4;
    }
    if constexpr (kTerms > 2) {
      if (count & 2) AddTerms<2>(d, group, u, sum);
      u += count & 2;
    }
    if constexpr (kTerms > 1) {
      if (count & 1) AddTerms<1>(d, group, u, sum);
    }
  }
}

// sum += s, and carry = what rounding takes from that, to be added to the next s: CompensatedAdd with one operation
// less.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void AddBlock(D /*d*/, V s, V& sum, V& carry) {
  const V next = hn::Add(sum, s);
  carry = hn::Sub(s, hn::Sub(next, sum));
  sum = next;
}

// What is prefetched beside scores: several queries' take long enough for a few lines in each group of hidden units.
struct LinesAhead {
  PrefetchLines lines;
  size_t per_group;
};

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
