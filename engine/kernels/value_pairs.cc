#include "engine/kernels/value_pairs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/value_pairs.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/value_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

float Values(const PairValuesArgs& args) { return PairValues(hn::ScalableTag<float>(), args); }
void Powers(const PairPowersArgs& args) { PairPowers(hn::ScalableTag<float>(), args); }
void Multiply(const ValuePairsArgs& args) { PoolTileByPairs(hn::ScalableTag<float>(), args); }

ValuePairsKernels Kernels() {
  return {.values = &Values,
          .powers = &Powers,
          .multiply = &Multiply,
          .has_registers_for_pairs = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
ValuePairsKernels value_pairs_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }

float power_exponent(float mean_square) {
  constexpr float kMax = 8;  // well below kMaxRise of softmax_row-inl.h, beyond which m moves
  if (mean_square == 0) return std::numeric_limits<float>::quiet_NaN();
  return std::clamp(std::round(0.5f * std::log2(mean_square)) + 3, -kMax, kMax);
}
}  // namespace attend::kernels
#endif
