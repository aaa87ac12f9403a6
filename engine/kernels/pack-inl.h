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
#include "engine/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// panel[k][j] -= center[k] for count columns, rounded up to whole vectors.
template <class D>
void CenterPanel(D d, const float* HWY_RESTRICT center, std::size_t size, std::size_t count,
                 float* HWY_RESTRICT panel) {
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t width = PanelWidth(d);
  for (std::size_t k = 0; k < size; ++k) {
    const V subtracted = hn::Set(d, center[k]);
    float* HWY_RESTRICT row = panel + k * width;
    for (std::size_t j = 0; j < count; j += lanes) hn::Store(hn::Sub(hn::Load(d, row + j), subtracted), d, row + j);
  }
}

// panel[size][j] = -|panel[.][j]|^2 / 2 for count columns; the columns beyond are read, so they must hold something. In
// double: the norm enters the score whole, its rounding is not averaged away. Products of two floats are exact there
// and each key's sum runs in the order of k: the same bits on every target, fused or not.
template <class D>
void AppendHalfNorms(D d, std::size_t size, std::size_t count, float* HWY_RESTRICT panel) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> half;
  using W = hn::Vec<decltype(dd)>;
  const std::size_t lanes = hn::Lanes(dd);
  const std::size_t width = PanelWidth(d);
  HWY_ALIGN double squared[2 * hn::MaxLanes(hn::ScalableTag<double>())];
  for (std::size_t first = 0; first < count; first += 2 * lanes) {  // two sums, for an addition's latency
    W sum0 = hn::Zero(dd), sum1 = sum0;
    for (std::size_t k = 0; k < size; ++k) {
      const float* HWY_RESTRICT row = panel + k * width + first;
      const W moved0 = hn::PromoteTo(dd, hn::Load(half, row)), moved1 = hn::PromoteTo(dd, hn::Load(half, row + lanes));
      sum0 = hn::MulAdd(moved0, moved0, sum0);
      sum1 = hn::MulAdd(moved1, moved1, sum1);
    }
    hn::Store(sum0, dd, squared);
    hn::Store(sum1, dd, squared + lanes);
    for (std::size_t j = first; j < std::min(count, first + 2 * lanes); ++j) {
      const float half_norm = static_cast<float>(-0.5 * squared[j - first]);
      panel[size * width + j] = half_norm;
      if (half_norm == -std::numeric_limits<float>::infinity()) {
        // An infinitely far key scores -inf and weighs 0: nothing must be left for its products to turn into NaN.
        for (std::size_t k = 0; k < size; ++k) panel[k * width + j] = 0.0f;
      }
    }
  }
}

// panel[k][j] = key[j][k] - center[k]: a transposition, a vector of keys at a time. Every line of the panel is written
// once and every line of a key read by consecutive steps, so nothing has to stay in L1 for long: going on to the next
// keys after 64 columns changed nothing, after 16 it lost up to 25 %.
//
// 512 keys, us, before (element by element down a column) and after; attend_bench --benchmark_filter='pack_keys/n512':
//                     AVX3          AVX2         SSE4
//   d64            14.3   4.3    13.3   4.1   13.1   4.5
//   d128           28.7   9.0    27.4   8.5   28.2   8.8
//   u256          273.6  16.9    52.0  16.0   49.9  16.7
//   d64 centered   32.4   8.9    32.4   9.6   23.4  16.7
template <class D>
void PackKeys(D d, const PackKeysArgs& args) {
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t width = PanelWidth(d);
  const std::size_t rows = args.size + (args.half_norms ? 1 : 0);
  const std::size_t end = args.first + args.num_keys;
  for (std::size_t first = args.first; first < end;) {
    const std::size_t begin = first % width, count = std::min(width - begin, end - first);
    float* HWY_RESTRICT panel = args.panels + first / width * args.panel_stride;
    const float* keys = args.keys + static_cast<std::ptrdiff_t>(first - args.first) * args.keys_stride;
    for (std::size_t j = begin; j < begin + count;) {
      const std::size_t vector = std::min(lanes - j % lanes, begin + count - j);
      const float* from = keys + static_cast<std::ptrdiff_t>(j - begin) * args.keys_stride;
      // Whole vectors, where what they overwrite is padded below anyway.
      if (j % lanes == 0 && (vector == lanes || args.pad)) {
        simd::TransposeRows(d, from, args.keys_stride, vector, args.size, panel + j, width);
      } else {
        simd::TransposeRowsExactly(d, from, args.keys_stride, vector, args.size, panel + j, width);
      }
      j += vector;
    }
    if (args.center != nullptr) CenterPanel(d, args.center, args.size, count, panel);
    if (args.pad && begin + count < width) {
      for (std::size_t k = 0; k < rows; ++k)
        std::fill(panel + k * width + begin + count, panel + (k + 1) * width, 0.0f);
    }
    if (args.half_norms) AppendHalfNorms(d, args.size, count, panel);
    first += count;
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
        hn::Store(v, d, panel + j * args.row_stride + n);
      }
    }
  }
  const float sum = hn::GetLane(hn::SumOfLanes(d, finite));
  return sum == 0.0f;
}

// packed[m][k] = scale * (query[m][k] - center[k]). Left to the compiler: vectors and LoadTail by hand took 0.59
// instead of 0.45 us on SSE4 and 0.25 instead of 0.23 on AVX3 (pack_queries/m48_d64).
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
