#include "engine/kernels/linear_rows.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/linear_rows.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/linear_pairs-inl.h"
#include "engine/kernels/linear_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Multiply(const LinearRowsArgs& args) { LinearRows(hn::CappedTag<float, kLinearPanel>(), args); }

void MultiplyByPairs(const LinearPairsArgs& args) { LinearPairs(hn::CappedTag<float, kLinearPanel>(), args); }

LinearRowsKernels Kernels() { return {&Multiply, &MultiplyByPairs, HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/kernels/for_target.h"
namespace attend::kernels {
LinearRowsKernels linear_rows_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels) }
}  // namespace attend::kernels
#endif
