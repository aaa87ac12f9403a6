// AVX2's operations for loops whose order is chosen by hand: each comes where it stands in the program. Compilers would
// move them, and copy registers to do so. They are Highway's but for their names, and multiply-adds may overwrite their
// last vector, or the first where the name says Over.
#if defined(ATTEND_SIMD_IN_ORDER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_SIMD_IN_ORDER_INL_H_
#undef ATTEND_SIMD_IN_ORDER_INL_H_
#else
#define ATTEND_SIMD_IN_ORDER_INL_H_
#endif

#include <hwy/highway.h>

#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if ATTEND_TARGET_IS_AVX2_FMA

#define ATTEND_IN_ORDER(instruction, a, b, result) \
  asm volatile(instruction " %2, %1, %0" : "+x"((result).raw) : "x"((a).raw), "x"((b).raw))
#define ATTEND_IN_ORDER_NEW(instruction, a, b, result) \
  asm volatile(instruction " %2, %1, %0" : "=x"((result).raw) : "x"((a).raw), "x"((b).raw))

template <class D, class V = hn::Vec<D>>
HWY_INLINE V MulInOrder(D /*d*/, V a, V b) {
  V result;
  ATTEND_IN_ORDER_NEW("vmulps", a, b, result);
  return result;
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AddInOrder(D /*d*/, V a, V b) {
  V result;
  ATTEND_IN_ORDER_NEW("vaddps", a, b, result);
  return result;
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SubInOrder(D /*d*/, V a, V b) {
  V result;
  ATTEND_IN_ORDER_NEW("vsubps", a, b, result);
  return result;
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V DivInOrder(D /*d*/, V a, V b) {
  V result;
  ATTEND_IN_ORDER_NEW("vdivps", a, b, result);
  return result;
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SetInOrder(D /*d*/, const float* from) {
  V result;
  asm volatile("vbroadcastss %1, %0" : "=x"(result.raw) : "m"(*from));
  return result;
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MulAddInOrder(D /*d*/, V a, V b, V c) {
  ATTEND_IN_ORDER("vfmadd231ps", a, b, c);
  return c;
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadInOrder(D /*d*/, const float* from) {
  V result;
  asm volatile("vmovaps %1, %0" : "=x"(result.raw) : "m"(*reinterpret_cast<const decltype(result.raw)*>(from)));
  return result;
}
// a times b plus c, which stays: a is overwritten.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MulAddOverInOrder(D /*d*/, V a, V b, V c) {
  asm volatile("vfmadd213ps %2, %1, %0" : "+x"(a.raw) : "x"(b.raw), "x"(c.raw));
  return a;
}
// The vector at `from` times b plus a.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MulLoadAddInOrder(D /*d*/, const float* from, V a, V b) {
  asm volatile("vfmadd132ps %2, %1, %0"
               : "+x"(b.raw)
               : "x"(a.raw), "m"(*reinterpret_cast<const decltype(b.raw)*>(from)));
  return b;
}
// a times b plus the vector at `from`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MulAddLoadInOrder(D /*d*/, V a, V b, const float* from) {
  asm volatile("vfmadd213ps %2, %1, %0"
               : "+x"(b.raw)
               : "x"(a.raw), "m"(*reinterpret_cast<const decltype(b.raw)*>(from)));
  return b;
}

#undef ATTEND_IN_ORDER_NEW
#undef ATTEND_IN_ORDER

#endif

}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
