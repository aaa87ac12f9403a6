#include "engine/kernels/masked_softmax.h"

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/masked_softmax.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/masked_softmax-inl.h"
#include "engine/simd/compat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Rows(const MaskedSoftmaxArgs& args) { MaskedSoftmaxRows(hn::ScalableTag<float>(), args); }

MaskedSoftmaxKernels Kernels() {
  return {.rows = &Rows, .whole_lines = simd::HoldsWholeLines(hn::ScalableTag<float>())};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
MaskedSoftmaxKernels masked_softmax_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
}  // namespace attend::kernels
#endif
