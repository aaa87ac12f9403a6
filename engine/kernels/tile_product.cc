#include "engine/kernels/tile_product.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/tile_product.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Multiply(const TileProductArgs& args) { MultiplyTile(hn::ScalableTag<float>(), args); }

TileProductKernels Kernels() { return {.multiply = &Multiply}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {
TileProductKernels tile_product_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }
}  // namespace attend::kernels
#endif
