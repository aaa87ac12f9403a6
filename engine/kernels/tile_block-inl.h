// What the loops of the tile product have in common: one panel, or two, of B over one block of the inner dimension.
#if defined(ATTEND_KERNELS_TILE_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_TILE_BLOCK_INL_H_
#undef ATTEND_KERNELS_TILE_BLOCK_INL_H_
#else
#define ATTEND_KERNELS_TILE_BLOCK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "engine/kernels/panel-inl.h"
#include "engine/kernels/tile_product.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What the steps of rows have in common.
struct BlockArgs {
  std::ptrdiff_t a_stride;
  const float* b;
  std::ptrdiff_t b_stride;
  size_t b_panel_stride;
  std::ptrdiff_t c_stride;
  bool add;             // to C
  bool first_max;       // max_lanes hold nothing yet
  PrefetchRows* ahead;  // or null
};

// Of terms k ... of a panel.
template <class D>
HWY_INLINE BlockArgs BlockOf(D /*d*/, const TileProductArgs& args, size_t panel, size_t k) {
  return {.a_stride = args.a_stride,
          .b = args.b + panel * args.b_panel_stride + static_cast<std::ptrdiff_t>(k) * args.b_row_stride,
          .b_stride = args.b_row_stride,
          .b_panel_stride = args.b_panel_stride,
          .c_stride = args.c_stride,
          .add = args.accumulate || k > 0,
          .first_max = panel == 0,
          .ahead = args.ahead};
}

// One row of results leaves the registers: stored, or added to what is there.
template <std::size_t kVectors, class D, class V = hn::Vec<D>>
HWY_INLINE void StoreRow(D d, const BlockArgs& args, V c0, V c1, V c2, V c3, float* HWY_RESTRICT c,
                         float* HWY_RESTRICT max_lanes) {
  const size_t lanes = hn::Lanes(d);
  if (args.add) {
    c0 = hn::Add(c0, hn::Load(d, c));
    if constexpr (kVectors > 1) c1 = hn::Add(c1, hn::Load(d, c + lanes));
    if constexpr (kVectors > 2) c2 = hn::Add(c2, hn::Load(d, c + 2 * lanes));
    if constexpr (kVectors > 3) c3 = hn::Add(c3, hn::Load(d, c + 3 * lanes));
  }
  hn::Store(c0, d, c);
  if constexpr (kVectors > 1) hn::Store(c1, d, c + lanes);
  if constexpr (kVectors > 2) hn::Store(c2, d, c + 2 * lanes);
  if constexpr (kVectors > 3) hn::Store(c3, d, c + 3 * lanes);
  if (max_lanes != nullptr) {
    V max = c0;
    if constexpr (kVectors > 1) max = hn::Max(max, c1);
    if constexpr (kVectors == 3) max = hn::Max(max, c2);
    if constexpr (kVectors > 3) max = hn::Max(max, hn::Max(c2, c3));
    if (!args.first_max) max = hn::Max(max, hn::Load(d, max_lanes));
    hn::Store(max, d, max_lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
