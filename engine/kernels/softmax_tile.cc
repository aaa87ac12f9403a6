#include "engine/kernels/softmax_tile.h"

#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/softmax_tile.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/softmax_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Step(const SoftmaxTileArgs& args) { SoftmaxTileStep(hn::ScalableTag<float>(), args); }

void TotalSums(const float* row_sums, std::size_t num_rows, double* totals) {
  SoftmaxTotalSums(hn::ScalableTag<float>(), row_sums, num_rows, totals);
}

void Weights(const WeightsArgs& args) { SoftmaxWeights(hn::ScalableTag<float>(), args); }

void Normalise(const NormaliseArgs& args) { NormaliseRows(hn::ScalableTag<float>(), args); }

void FinishRows(const FinishRowsArgs& args) { SoftmaxFinishRows(hn::ScalableTag<float>(), args); }

SoftmaxTileKernels Kernels() {
  return {.sums_stride = kSumVectors * hn::Lanes(hn::ScalableTag<float>()),
          .step = &Step,
          .total_sums = &TotalSums,
          .weights = &Weights,
          .normalise = &Normalise,
          .finish_rows = &FinishRows};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
SoftmaxTileKernels softmax_tile_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
}  // namespace attend::kernels
#endif
