// Packing, per target. Tails: rows are read element by element where they end (LoadTail), scratch is padded with zeros.
#if defined(ATTEND_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_PACK_INL_H_
#undef ATTEND_KERNELS_PACK_INL_H_
#else
#define ATTEND_KERNELS_PACK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "engine/kernels/pack.h"
#include "engine/kernels/panel-inl.h"
#include "engine/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// panel[k][j] = key[j][k] - center[k]: a transposition, written down a column of the panel. A panel of 64 keys of size
// 64 is 16 KiB, so the strided stores stay in L1; packing is below 3 % of a tile's products from 64 queries on.
template <class D>
void PackKeys(D d, const PackKeysArgs& args) {
  const std::size_t width = PanelWidth(d);
  const std::size_t rows = args.size + (args.half_norms ? 1 : 0);
  for (std::size_t first = 0; first < args.num_keys; first += width) {
    float* HWY_RESTRICT panel = args.panels + first / width * args.panel_stride;
    const std::size_t count = std::min(width, args.num_keys - first);
    for (std::size_t j = 0; j < count; ++j) {
      const float* HWY_RESTRICT key = args.keys + static_cast<std::ptrdiff_t>(first + j) * args.keys_stride;
      if (args.center == nullptr && !args.half_norms) {
        for (std::size_t k = 0; k < args.size; ++k) panel[k * width + j] = key[k];
        continue;
      }
      double squared = 0.0;  // in double: |key - center|^2 enters the score whole, its rounding is not averaged away
      for (std::size_t k = 0; k < args.size; ++k) {
        const float moved = args.center == nullptr ? key[k] : key[k] - args.center[k];
        panel[k * width + j] = moved;
        squared += static_cast<double>(moved) * static_cast<double>(moved);
      }
      if (!args.half_norms) continue;
      const float half_norm = static_cast<float>(-0.5 * squared);
      panel[args.size * width + j] = half_norm;
      if (half_norm == -std::numeric_limits<float>::infinity()) {
        // An infinitely far key scores -inf and weighs 0: nothing must be left for its products to turn into NaN.
        for (std::size_t k = 0; k < args.size; ++k) panel[k * width + j] = 0.0f;
      }
    }
    if (count < width) {
      for (std::size_t k = 0; k < rows; ++k) std::fill(panel + k * width + count, panel + (k + 1) * width, 0.0f);
    }
  }
}

// panel[j][n] = value[j][n]: rows copied in pieces of a panel's width. x - x is 0 for finite x and NaN otherwise, so
// one sum over all of them tells whether every value is finite.
template <class D>
bool PackValues(D d, const PackValuesArgs& args) {
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t width = PanelWidth(d);
  V finite = hn::Zero(d);
  for (std::size_t first = 0; first < args.size; first += width) {
    float* HWY_RESTRICT panel = args.panels + first / width * args.panel_stride;
    for (std::size_t j = 0; j < args.num_values; ++j) {
      const float* HWY_RESTRICT value = args.values + static_cast<std::ptrdiff_t>(j) * args.values_stride;
      for (std::size_t n = 0; n < width; n += lanes) {
        const std::size_t column = first + n;
        V v = hn::Zero(d);
        if (column + lanes <= args.size) {
          v = hn::LoadU(d, value + column);
        } else if (column < args.size) {
          v = simd::LoadTail(d, value + column, args.size - column);
        }
        finite = hn::Add(finite, hn::Sub(v, v));
        hn::Store(v, d, panel + j * width + n);
      }
    }
  }
  const float sum = hn::GetLane(hn::SumOfLanes(d, finite));
  return sum == 0.0f;
}

// packed[m][k] = scale * (query[m][k] - center[k])
inline void PackQueries(const PackQueriesArgs& args) {
  for (std::size_t m = 0; m < args.num_queries; ++m) {
    const float* HWY_RESTRICT query = args.queries + static_cast<std::ptrdiff_t>(m) * args.queries_stride;
    float* HWY_RESTRICT packed = args.packed + static_cast<std::ptrdiff_t>(m) * args.packed_stride;
    if (args.center == nullptr) {
      for (std::size_t k = 0; k < args.size; ++k) packed[k] = args.scale * query[k];
    } else {
      for (std::size_t k = 0; k < args.size; ++k) packed[k] = args.scale * (query[k] - args.center[k]);
    }
    if (args.append_scale) packed[args.size] = args.scale;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
