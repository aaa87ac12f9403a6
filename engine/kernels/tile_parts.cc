#include "engine/kernels/tile_parts.h"

#include <cstddef>

#include "engine/base/cpus.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/tile_parts.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/attend_parts-inl.h"
#include "engine/kernels/tile_parts-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

bool Queries(const QueryPartsArgs& args) { return QueryParts(args); }
bool Keys(const KeyPartsArgs& args) { return KeyParts(args); }
bool Values(const ValuePartsArgs& args) { return ValueParts(args); }

template <class T>
TilePartsKernels KernelsOn(bool has_tiles) {
  return {.configure = &T::Configure,
          .release = &T::Release,
          .queries = &Queries,
          .keys = &Keys,
          .values = &Values,
          .score = &ScoreByParts<T>,
          .pool = &PoolByParts<T>,
          .attend = &AttendByParts<T>,
          .has_tiles = has_tiles};
}

TilePartsKernels Kernels() {
#if ATTEND_HAS_AMX
  if (this_cpu().has_tiles) return KernelsOn<simd::AmxTiles>(true);
#endif
  return KernelsOn<simd::TilesInMemory>(false);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
TilePartsKernels tile_parts_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
}  // namespace attend::kernels
#endif
