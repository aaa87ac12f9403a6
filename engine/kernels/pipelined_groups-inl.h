// A group of eight hidden units of two additive scores, by eight terms per division or by three, and what is left to do
// of their group before: the steps of pipelined_score-inl.h, which says why. Operations and bits of a score are those
// of AddGroup (score_group-inl.h).
#if defined(ATTEND_KERNELS_PIPELINED_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_PIPELINED_GROUPS_INL_H_
#undef ATTEND_KERNELS_PIPELINED_GROUPS_INL_H_
#else
#define ATTEND_KERNELS_PIPELINED_GROUPS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <type_traits>

#include "engine/kernels/additive_score.h"
#include "engine/simd/compat-inl.h"
#include "engine/simd/in_order-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

#if ATTEND_TARGET_IS_AVX2_FMA

// What two scores, a and b, have from a group of hidden units on. kOneQuery: theirs; else they have the same keys.
template <bool kOneQuery>
struct TwoScores {
  const float* HWY_RESTRICT a;
  const float* HWY_RESTRICT b;
  const float* HWY_RESTRICT a_keys;
  const float* HWY_RESTRICT b_keys;
  const float* HWY_RESTRICT alphas;
};

// By eight: sum 1/tau of four terms of a score and of its next four, as fractions.
template <class D>
struct Fractions {
  hn::Vec<D> n0, d0, n1, d1;

  static HWY_INLINE Fractions OfNoTerms(D d) { return {hn::Zero(d), hn::Set(d, 1.0f), hn::Zero(d), hn::Set(d, 1.0f)}; }
};

// What is left to do of a group by eight.
template <class D>
struct LeftByEight {
  Fractions<D> a, b;

  static HWY_INLINE LeftByEight OfNoTerms(D d) { return {Fractions<D>::OfNoTerms(d), Fractions<D>::OfNoTerms(d)}; }
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

// A group of two scores; and the last operations of the two before, whose `left` becomes that of these. Their terms are
// added to sums by their constants.
template <class D, class Two>
HWY_INLINE void GroupOfTwo(D d, const Two& two, LeftByEight<D>& left, const float* HWY_RESTRICT constants,
                           float* sums) {
  Fractions<D> a, b;
  FourTermsOfTwo(d, two, 0, a.n0, a.d0, b.n0, b.d0, left.a, constants, sums);
  FourTermsOfTwo(d, two, 4, a.n1, a.d1, b.n1, b.d1, left.b, constants, sums + hn::Lanes(d));
  left.a = a;
  left.b = b;
}

// The last operations alone.
template <class D>
HWY_INLINE void FinishTerms(D d, const LeftByEight<D>& left, const float* HWY_RESTRICT constants, float* sums) {
  FinishTerms(d, left.a, constants, sums);
  FinishTerms(d, left.b, constants, sums + hn::Lanes(d));
}

// By three: sum 1/tau of some terms of both scores, as fractions.
template <class D>
struct TwoFractions {
  hn::Vec<D> na, da, nb, db;

  static HWY_INLINE TwoFractions OfNoTerms(D d) {
    return {hn::Zero(d), hn::Set(d, 1.0f), hn::Zero(d), hn::Set(d, 1.0f)};
  }
};

// What is left to do of a group by three: quotients of units 0 to 2 are there, fractions of 3 to 5, of 6 and 7.
template <class D>
struct LeftByThree {
  hn::Vec<D> a02, b02;
  TwoFractions<D> f35, f67;

  static HWY_INLINE LeftByThree OfNoTerms(D d) {
    return {hn::Zero(d), hn::Zero(d), TwoFractions<D>::OfNoTerms(d), TwoFractions<D>::OfNoTerms(d)};
  }
};

// tau of unit u, with one load for both of what both need.
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

// Of two tau of each: their sum, which is the numerator, and their product.
template <class D, class V = hn::Vec<D>>
HWY_INLINE TwoFractions<D> FractionsOfTwo(D d, V a0, V a1, V b0, V b1) {
  TwoFractions<D> f;
  f.na = simd::AddInOrder(d, a0, a1);
  f.nb = simd::AddInOrder(d, b0, b1);
  f.da = simd::MulInOrder(d, a0, a1);
  f.db = simd::MulInOrder(d, b0, b1);
  return f;
}

// And a third tau.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void AddThird(D d, V a2, V b2, TwoFractions<D>& f) {
  f.na = simd::MulAddOverInOrder(d, f.na, a2, f.da);
  f.nb = simd::MulAddOverInOrder(d, f.nb, b2, f.db);
  f.da = simd::MulInOrder(d, f.da, a2);
  f.db = simd::MulInOrder(d, f.db, b2);
}

// The eight terms of one score, of units 0 to 5 and of 6 and 7; and *sum += such terms by K.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V EightTerms(D d, const float* HWY_RESTRICT constants, V q05, V q67) {
  return simd::SubInOrder(d, simd::SubInOrder(d, simd::SetInOrder(d, constants + kSumOfEight), q67), q05);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE void AddEightTerms(D d, const float* HWY_RESTRICT constants, V terms, float* sum) {
  hn::Store(simd::MulAddLoadInOrder(d, simd::SetInOrder(d, constants + kFactor), terms, sum), d, sum);
}

// The same as by eight. Divisions begin two or one at a time, with multiplications of other terms in between, since a
// CPU divides one vector after the other.
template <class D, class Two>
HWY_INLINE void GroupOfTwo(D d, const Two& two, LeftByThree<D>& left, const float* HWY_RESTRICT constants,
                           float* sums) {
  using V = hn::Vec<D>;
  V a0, a1, a2, b0, b1, b2;
  TauByThree(d, two, 0, a0, b0);
  TauByThree(d, two, 1, a1, b1);
  const V a35 = simd::DivInOrder(d, left.f35.na, left.f35.da), b35 = simd::DivInOrder(d, left.f35.nb, left.f35.db);
  const V a05 = simd::AddInOrder(d, left.a02, a35), b05 = simd::AddInOrder(d, left.b02, b35);
  TauByThree(d, two, 2, a2, b2);
  TwoFractions<D> f02 = FractionsOfTwo(d, a0, a1, b0, b1);
  TauByThree(d, two, 3, a0, b0);
  const V a67 = simd::DivInOrder(d, left.f67.na, left.f67.da), b67 = simd::DivInOrder(d, left.f67.nb, left.f67.db);
  TauByThree(d, two, 4, a1, b1);
  const V a_terms = EightTerms(d, constants, a05, a67), b_terms = EightTerms(d, constants, b05, b67);
  AddThird(d, a2, b2, f02);
  left.f35 = FractionsOfTwo(d, a0, a1, b0, b1);
  TauByThree(d, two, 5, a2, b2);
  TauByThree(d, two, 6, a0, b0);
  left.a02 = simd::DivInOrder(d, f02.na, f02.da);
  AddEightTerms(d, constants, a_terms, sums);
  left.b02 = simd::DivInOrder(d, f02.nb, f02.db);
  TauByThree(d, two, 7, a1, b1);
  AddThird(d, a2, b2, left.f35);
  left.f67 = FractionsOfTwo(d, a0, a1, b0, b1);
  AddEightTerms(d, constants, b_terms, sums + hn::Lanes(d));
}

template <class D>
HWY_INLINE void FinishTerms(D d, const LeftByThree<D>& left, const float* HWY_RESTRICT constants, float* sums) {
  using V = hn::Vec<D>;
  const V a05 = hn::Add(left.a02, hn::Div(left.f35.na, left.f35.da));
  const V b05 = hn::Add(left.b02, hn::Div(left.f35.nb, left.f35.db));
  const V a67 = hn::Div(left.f67.na, left.f67.da), b67 = hn::Div(left.f67.nb, left.f67.db);
  AddEightTerms(d, constants, EightTerms(d, constants, a05, a67), sums);
  AddEightTerms(d, constants, EightTerms(d, constants, b05, b67), sums + hn::Lanes(d));
}

template <size_t kTerms, class D>
using LeftOfGroup = std::conditional_t<kTerms == 3, LeftByThree<D>, LeftByEight<D>>;

#endif

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
