#include "engine/kernels/pack.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/pack.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Keys(const PackKeysArgs& args) { PackKeys(hn::ScalableTag<float>(), args); }
bool Values(const PackValuesArgs& args) { return PackValues(hn::ScalableTag<float>(), args); }
void Queries(const PackQueriesArgs& args) { PackQueries(args); }

PackKernels Kernels() {
  return {.panel_width = PanelWidth(hn::ScalableTag<float>()), .keys = &Keys, .values = &Values, .queries = &Queries};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
PackKernels pack_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
}  // namespace attend::kernels
#endif
