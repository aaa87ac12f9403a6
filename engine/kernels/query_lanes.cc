#include "engine/kernels/query_lanes.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/query_lanes.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/query_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Pack(const PackLanesArgs& args) { PackLanes(hn::ScalableTag<float>(), args); }
void Step(const LanesArgs& args) { LanesStep(hn::ScalableTag<float>(), args); }
void StoreWeights(const StoreLanesArgs& args) { StoreLaneWeights(hn::ScalableTag<float>(), args); }

QueryLanesKernels Kernels() {
  return {.lanes = hn::Lanes(hn::ScalableTag<float>()),
          .prefetches = kLanesPrefetch,
          .has_32_registers = kHas32Registers,
          .pack = &Pack,
          .step = &Step,
          .store_weights = &StoreWeights};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
QueryLanesKernels query_lanes_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
}  // namespace attend::kernels
#endif
