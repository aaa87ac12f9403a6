// The loops of machine_speed.h, per target.
#if defined(ATTEND_KERNELS_MACHINE_SPEED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_MACHINE_SPEED_INL_H_
#undef ATTEND_KERNELS_MACHINE_SPEED_INL_H_
#else
#define ATTEND_KERNELS_MACHINE_SPEED_INL_H_
#endif

#include <cstddef>

#include <hwy/highway.h>

#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 12 sums in flight cover a latency of 4 cycles on two ports (8) with room, and fit 16 registers beside the two
// factors. x = 0.999 x + 0.001 stays near 1: no denormals, nothing the compiler can drop. Every sum starts elsewhere,
// lest it finds that all are the same and computes one (g++ 12 does, and 285 GFLOPS result where 180 are possible).
template <class D>
HWY_INLINE double MultiplyAdds(D d, std::size_t steps, float* sink) {
  using V = hn::Vec<D>;
  const V factor = hn::Set(d, 0.999f), term = hn::Set(d, 0.001f);
  V x0 = hn::Set(d, 0.0f), x1 = hn::Set(d, 0.1f), x2 = hn::Set(d, 0.2f), x3 = hn::Set(d, 0.3f);
  V x4 = hn::Set(d, 0.4f), x5 = hn::Set(d, 0.5f), x6 = hn::Set(d, 0.6f), x7 = hn::Set(d, 0.7f);
  V x8 = hn::Set(d, 0.8f), x9 = hn::Set(d, 0.9f), x10 = hn::Set(d, 1.0f), x11 = hn::Set(d, 1.1f);
  for (std::size_t i = 0; i < steps; ++i) {
    x0 = hn::MulAdd(x0, factor, term);
    x1 = hn::MulAdd(x1, factor, term);
    x2 = hn::MulAdd(x2, factor, term);
    x3 = hn::MulAdd(x3, factor, term);
    x4 = hn::MulAdd(x4, factor, term);
    x5 = hn::MulAdd(x5, factor, term);
    x6 = hn::MulAdd(x6, factor, term);
    x7 = hn::MulAdd(x7, factor, term);
    x8 = hn::MulAdd(x8, factor, term);
    x9 = hn::MulAdd(x9, factor, term);
    x10 = hn::MulAdd(x10, factor, term);
    x11 = hn::MulAdd(x11, factor, term);
  }
  const V low = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(x4, x5));
  const V high = hn::Add(hn::Add(hn::Add(x6, x7), hn::Add(x8, x9)), hn::Add(x10, x11));
  *sink = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
  return static_cast<double>(steps) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

// Eight sums in flight: two loads and two additions of four cycles in each cycle.
template <class D>
HWY_INLINE float SumInOrder(D d, const float* data, std::size_t count) {
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d);
  V x0 = zero, x1 = zero, x2 = zero, x3 = zero, x4 = zero, x5 = zero, x6 = zero, x7 = zero;
  for (std::size_t i = 0; i < count; i += 8 * lanes) {
    x0 = hn::Add(x0, hn::Load(d, data + i));
    x1 = hn::Add(x1, hn::Load(d, data + i + lanes));
    x2 = hn::Add(x2, hn::Load(d, data + i + 2 * lanes));
    x3 = hn::Add(x3, hn::Load(d, data + i + 3 * lanes));
    x4 = hn::Add(x4, hn::Load(d, data + i + 4 * lanes));
    x5 = hn::Add(x5, hn::Load(d, data + i + 5 * lanes));
    x6 = hn::Add(x6, hn::Load(d, data + i + 6 * lanes));
    x7 = hn::Add(x7, hn::Load(d, data + i + 7 * lanes));
  }
  const V sum = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(hn::Add(x4, x5), hn::Add(x6, x7)));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Eight sums in flight, as above. No addition depends on another, so that only multiply-adds have to wait.
template <class D>
HWY_INLINE float SumOfProducts(D d, const float* data, std::size_t count) {
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0f), factor = hn::Set(d, 0x1p-10f);
  V x0 = zero, x1 = zero, x2 = zero, x3 = zero, x4 = zero, x5 = zero, x6 = zero, x7 = zero;
  const auto term = [&](std::size_t i) ATTEND_INLINE_ATTR { return hn::Add(hn::Load(d, data + i), one); };
  for (std::size_t i = 0; i < count; i += 8 * lanes) {
    x0 = hn::MulAdd(term(i), factor, x0);
    x1 = hn::MulAdd(term(i + lanes), factor, x1);
    x2 = hn::MulAdd(term(i + 2 * lanes), factor, x2);
    x3 = hn::MulAdd(term(i + 3 * lanes), factor, x3);
    x4 = hn::MulAdd(term(i + 4 * lanes), factor, x4);
    x5 = hn::MulAdd(term(i + 5 * lanes), factor, x5);
    x6 = hn::MulAdd(term(i + 6 * lanes), factor, x6);
    x7 = hn::MulAdd(term(i + 7 * lanes), factor, x7);
  }
  const V sum = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(hn::Add(x4, x5), hn::Add(x6, x7)));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif
