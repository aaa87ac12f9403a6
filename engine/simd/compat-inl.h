// What differs between targets, or between Highway 1.0.3 and 1.3, in one place: everything else is written to 1.0.3,
// whose names later versions still accept.
#if defined(ATTEND_SIMD_COMPAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_COMPAT_INL_H_
#undef ATTEND_SIMD_COMPAT_INL_H_
#else
#define ATTEND_SIMD_COMPAT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Once only: macros survive the toggle. True where vectors are C++ arrays or single numbers, not registers.
#ifndef ATTEND_TARGET_IS_EMULATED
#define ATTEND_TARGET_IS_EMULATED (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128)
#endif

// True for AVX2 with FMA, whose loops may go in an order of our own (kSumsStay, in_order-inl.h).
#ifndef ATTEND_TARGET_IS_AVX2_FMA
#ifdef HWY_DISABLE_BMI2_FMA
#define ATTEND_TARGET_IS_AVX2_FMA 0
#else
#define ATTEND_TARGET_IS_AVX2_FMA (HWY_TARGET == HWY_AVX2)
#endif
#endif

// HWY_ATTR of lambdas that keep vectors of their function: clang 14 left some out of line, and a loop's 24 sums in
// memory (multi_head/b8_s128_e768_h12 on AVX3: 53 ms instead of 37).
#ifndef ATTEND_INLINE_ATTR
#define ATTEND_INLINE_ATTR HWY_ATTR __attribute__((always_inline))
#endif

// Before a loop that is to stay one.
#ifndef ATTEND_KEEP_LOOP
#if defined(__clang__)
#define ATTEND_KEEP_LOOP _Pragma("clang loop unroll(disable)")
#else
#define ATTEND_KEEP_LOOP _Pragma("GCC unroll 1")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether a vector may hold a line of memory.
template <class D>
constexpr bool HoldsWholeLines(D /*d*/) {
  return hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) >= 64;
}

// *p in every lane. On AVX-512 a broadcast of integers, because one of floats into 512 bits takes Zen 4's units for
// arithmetic half a cycle each: linear/r256_i768_o768/AVX3_pairs 99 GFLOPS by Set, 163 so. clang takes the former
// unless it is told by name; g++ does better by itself, 151 by name.
template <class D>
HWY_INLINE hn::Vec<D> BroadcastLoad(D d, const float* HWY_RESTRICT p) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 && HWY_COMPILER_CLANG
  static_assert(hn::MaxLanes(D()) == 16);
  hn::Vec<D> v = hn::Undefined(d);
  asm("vpbroadcastd %1, %0" : "=v"(v.raw) : "m"(*p));
  return v;
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  const hn::RebindToSigned<D> di;
  std::int32_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return hn::BitCast(d, hn::Set(di, bits));
#else
  return hn::Set(d, *p);
#endif
}

// Largest lane. ReduceMax appeared after 1.0.3; our own name, because a call by Highway's would be ambiguous where it
// exists. NaN lanes are dropped on some targets and win on others.
template <class D, class V = hn::Vec<D>>
HWY_INLINE float HorizontalMax(D d, V v) {
#if HWY_TARGET == HWY_EMU128
  // MaxOfLanes starts from the lowest finite float there: -inf in every lane would give that.
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  float max = lanes[0];
  for (size_t i = 1; i < hn::Lanes(d); ++i) max = lanes[i] > max ? lanes[i] : max;
  return max;
#else
  return hn::GetLane(hn::MaxOfLanes(d, v));
#endif
}

// Sum of the lanes of sum - lost (a compensated sum, math-inl.h), in double: a tree of float additions would lose up to
// log2(lanes) roundings, which alone exceeds the 2e-7 that masked softmax may be wrong by. Goes through memory because
// swizzles do not exist on SCALAR; some 30 cycles.
template <class D, class V = hn::Vec<D>>
HWY_INLINE double HorizontalSum(D d, V sum, V lost) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> half;
  HWY_ALIGN float sums[hn::MaxLanes(D())];
  HWY_ALIGN float losses[hn::MaxLanes(D())];
  hn::Store(sum, d, sums);
  hn::Store(lost, d, losses);
  hn::Vec<decltype(dd)> total = hn::Zero(dd);
  for (size_t i = 0; i < hn::Lanes(d); i += hn::Lanes(dd)) {
    const hn::Vec<decltype(dd)> part = hn::PromoteTo(dd, hn::Load(half, sums + i));
    total = hn::Add(total, hn::Sub(part, hn::PromoteTo(dd, hn::Load(half, losses + i))));
  }
  return hn::GetLane(hn::SumOfLanes(dd, total));
}

// sum += a b, for loops that keep every register busy. AVX2 has 16, and g++ 12 moves sums between them, or to memory
// where several terms make a turn of the loop, unless it is told by name to leave each where it is, in the order of the
// program. Then four terms can make a turn (kSumsStay), which saves instructions. What AVX-512 wants for pairs of terms
// is AddProduct (kernels/pairs-inl.h).
static constexpr bool kSumsStay = ATTEND_TARGET_IS_AVX2_FMA;

#if ATTEND_TARGET_IS_AVX2_FMA
template <class D>
HWY_INLINE void AddProductInOrder(D /*d*/, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D>& sum) {
  asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum.raw) : "x"(a.raw), "x"(b.raw));
}
#else
template <class D>
HWY_INLINE void AddProductInOrder(D /*d*/, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D>& sum) {
  sum = hn::MulAdd(a, b, sum);
}
#endif

// sum_r += x_r y for the first kRows of three sums: one vector y, an element x_r of each row.
template <size_t kRows, class D, class V = hn::Vec<D>>
HWY_INLINE void AddColumnInOrder(D d, V x0, V x1, V x2, V y, V& sum0, V& sum1, V& sum2) {
  AddProductInOrder(d, x0, y, sum0);
  if constexpr (kRows > 1) AddProductInOrder(d, x1, y, sum1);
  if constexpr (kRows > 2) AddProductInOrder(d, x2, y, sum2);
}

// min(v, high), and v where either is NaN, which hn::Min does not promise. On x86, MINPS and MAXPS return their second
// operand then (Intel SDM), and Highway keeps the order of operands.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MinKeepNaN(D /*d*/, V v, V high) {
#if HWY_ARCH_X86 && !ATTEND_TARGET_IS_EMULATED
  return hn::Min(high, v);
#else
  return hn::IfThenElse(hn::Gt(v, high), high, v);
#endif
}

// max(v, low) likewise.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MaxKeepNaN(D /*d*/, V v, V low) {
#if HWY_ARCH_X86 && !ATTEND_TARGET_IS_EMULATED
  return hn::Max(low, v);
#else
  return hn::IfThenElse(hn::Lt(v, low), low, v);
#endif
}

// max(min(v, high), low) likewise.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ClampKeepNaN(D d, V v, V low, V high) {
  return MaxKeepNaN(d, MinKeepNaN(d, v, high), low);
}

}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_SIMD_COMPAT_INL_H_
