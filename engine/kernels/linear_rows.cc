#include "engine/kernels/linear_rows.h"

#include <cstddef>
#include <cstdint>

#include "engine/base/cpus.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/linear_rows.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/linear_pairs-inl.h"
#include "engine/kernels/linear_parts-inl.h"
#include "engine/kernels/linear_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Multiply(const LinearRowsArgs& args) { LinearRows(hn::CappedTag<float, kLinearPanel>(), args); }

void MultiplyByPairs(const LinearPairsArgs& args) { LinearPairs(hn::CappedTag<float, kLinearPanel>(), args); }

// Sixteen are enough for projections and scores on Zen 4; on Zen 5 that is not measured.
bool HasRegistersForPairs() {
  return HWY_ARCH_X86 && (HWY_TARGET <= HWY_AVX3 || (HWY_TARGET <= HWY_AVX2 && !this_cpu().is_zen5()));
}

bool HasTiles() { return ATTEND_HAS_AMX && this_cpu().has_tiles; }

void MultiplyByParts(const LinearPartsArgs& args) {
  const hn::CappedTag<float, kLinearPanel> d;
#if ATTEND_HAS_AMX
  if (HasTiles()) return LinearParts<simd::AmxTiles>(d, args);
#endif
  LinearParts<simd::TilesInMemory>(d, args);
}

void PackParts(const float* panels, size_t in, size_t out, std::uint16_t* parts) {
  LinearPackParts(hn::CappedTag<float, kLinearPanel>(), panels, in, out, parts);
}

LinearRowsKernels Kernels() {
  return {.multiply = &Multiply,
          .multiply_by_pairs = &MultiplyByPairs,
          .multiply_by_parts = &MultiplyByParts,
          .pack_parts = &PackParts,
          .has_registers_for_pairs = HasRegistersForPairs(),
          .pairs_by_slices = kSumsBySlices,
          .has_tiles = HasTiles()};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
LinearRowsKernels linear_rows_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
}  // namespace attend::kernels
#endif
