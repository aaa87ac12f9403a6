#include "engine/kernels/additive_score.h"

#include <cstdint>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/additive_score.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>
#include "engine/kernels/for_target.h"
#include "engine/kernels/additive_score-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Direct(const AdditiveScoreArgs& args) { AdditiveScoreDirect(hn::ScalableTag<float>(), args); }

AdditiveScoreKernels Kernels() {
  AdditiveScoreKernels kernels;
  kernels.direct = &Direct;
  return kernels;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {

AdditiveScoreKernels additive_score_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }

}  // namespace attend::kernels
#endif
