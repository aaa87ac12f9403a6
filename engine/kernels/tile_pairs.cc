#include "engine/kernels/tile_pairs.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/tile_pairs.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/tile_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

float Panels(const PairPanelsArgs& args) { return PairPanels(hn::ScalableTag<float>(), args); }

void Rows(const PairRowsArgs& args) {
  PairRows(hn::CappedTag<float, 16>(), PanelWidth(hn::ScalableTag<float>()), args);
}

void Multiply(const TilePairsArgs& args) { MultiplyTileByPairs(hn::ScalableTag<float>(), args); }

TilePairsKernels Kernels() {
  return {.panels = &Panels,
          .rows = &Rows,
          .multiply = &Multiply,
          .has_registers_for_pairs = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
TilePairsKernels tile_pairs_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
}  // namespace attend::kernels
#endif
