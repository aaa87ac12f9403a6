#include "engine/kernels/few_rows.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/few_rows.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/few_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Dots(const DotRowsArgs& args) { DotRows(hn::ScalableTag<float>(), args); }
void Pool(const PoolRowsArgs& args) { PoolRows(hn::ScalableTag<float>(), args); }

FewRowsKernels Kernels() {
  return {.dots = &Dots,
          .pool = &Pool,
          .whole_lines = simd::HoldsWholeLines(hn::ScalableTag<float>()),
          .has_32_registers = kHas32Registers,
          .prefetches_keys = kDotsPrefetch};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
FewRowsKernels few_rows_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
}  // namespace attend::kernels
#endif
