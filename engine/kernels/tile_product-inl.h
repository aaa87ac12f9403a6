// C = A B by outer products: one element of A is broadcast against a panel row of B, so that no lane ever moves
// sideways.
//
// Scalar step:  c[m][n] += a[m][k] * b[k][n]
// Registers:    6 rows of A times kVectorsPerPanel vectors of B: 24 accumulators + 4 of B + 1 broadcast of 32 registers
// with
//               AVX-512 and NEON, 12 + 2 + 1 of 16 with AVX2 and SSE. Six rows and two vectors are the 12 independent
//               sums that cover 4 cycles of latency on 2 FMA ports with room to spare; four vectors amortise the
//               broadcast further. bench: tile_product/*.
#if defined(ATTEND_KERNELS_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_TILE_PRODUCT_INL_H_
#undef ATTEND_KERNELS_TILE_PRODUCT_INL_H_
#else
#define ATTEND_KERNELS_TILE_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "engine/kernels/panel-inl.h"
#include "engine/kernels/tile_product.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kRowsPerStep = 6;

// One row of results leaves the registers: stored, or added to what is there.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreRow(D d, bool add, V c0, V c1, V c2, V c3, float* HWY_RESTRICT c) {
  const std::size_t lanes = hn::Lanes(d);
  if (add) {
    c0 = hn::Add(c0, hn::Load(d, c));
    c1 = hn::Add(c1, hn::Load(d, c + lanes));
    if constexpr (kVectorsPerPanel > 2) {
      c2 = hn::Add(c2, hn::Load(d, c + 2 * lanes));
      c3 = hn::Add(c3, hn::Load(d, c + 3 * lanes));
    }
  }
  hn::Store(c0, d, c);
  hn::Store(c1, d, c + lanes);
  if constexpr (kVectorsPerPanel > 2) {
    hn::Store(c2, d, c + 2 * lanes);
    hn::Store(c3, d, c + 3 * lanes);
  }
}

// kRows rows of A times one panel of B over one block of the inner dimension. Rows that do not exist (kRows < 6)
// compile away; each existing row runs the same operations in the same order whatever kRows is.
template <std::size_t kRows, class D>
HWY_INLINE void MultiplyRows(D d, const float* HWY_RESTRICT a, std::ptrdiff_t a_stride, const float* HWY_RESTRICT b,
                             std::ptrdiff_t b_stride, std::size_t inner, bool add, float* HWY_RESTRICT c,
                             std::ptrdiff_t c_stride) {
  static_assert(kVectorsPerPanel == 2 || kVectorsPerPanel == 4);
  using V = hn::Vec<D>;
  const std::size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d);
  V c00 = zero, c01 = zero, c02 = zero, c03 = zero;
  V c10 = zero, c11 = zero, c12 = zero, c13 = zero;
  V c20 = zero, c21 = zero, c22 = zero, c23 = zero;
  V c30 = zero, c31 = zero, c32 = zero, c33 = zero;
  V c40 = zero, c41 = zero, c42 = zero, c43 = zero;
  V c50 = zero, c51 = zero, c52 = zero, c53 = zero;

  V b2 = zero, b3 = zero;
  for (std::size_t k = 0; k < inner; ++k) {
    const float* HWY_RESTRICT b_row = b + static_cast<std::ptrdiff_t>(k) * b_stride;
    const V b0 = hn::LoadU(d, b_row);
    const V b1 = hn::LoadU(d, b_row + lanes);
    if constexpr (kVectorsPerPanel > 2) {
      b2 = hn::LoadU(d, b_row + 2 * lanes);
      b3 = hn::LoadU(d, b_row + 3 * lanes);
    }
#define ATTEND_STEP(row, r0, r1, r2, r3)                                                                             \
  if constexpr (kRows > row) {                                                                                       \
    const V broadcast = hn::Set(d, a[static_cast<std::ptrdiff_t>(row) * a_stride + static_cast<std::ptrdiff_t>(k)]); \
    r0 = hn::MulAdd(broadcast, b0, r0);                                                                              \
    r1 = hn::MulAdd(broadcast, b1, r1);                                                                              \
    if constexpr (kVectorsPerPanel > 2) {                                                                            \
      r2 = hn::MulAdd(broadcast, b2, r2);                                                                            \
      r3 = hn::MulAdd(broadcast, b3, r3);                                                                            \
    }                                                                                                                \
  }
    ATTEND_STEP(0, c00, c01, c02, c03)
    ATTEND_STEP(1, c10, c11, c12, c13)
    ATTEND_STEP(2, c20, c21, c22, c23)
    ATTEND_STEP(3, c30, c31, c32, c33)
    ATTEND_STEP(4, c40, c41, c42, c43)
    ATTEND_STEP(5, c50, c51, c52, c53)
#undef ATTEND_STEP
  }
  StoreRow(d, add, c00, c01, c02, c03, c);
  if constexpr (kRows > 1) StoreRow(d, add, c10, c11, c12, c13, c + c_stride);
  if constexpr (kRows > 2) StoreRow(d, add, c20, c21, c22, c23, c + 2 * c_stride);
  if constexpr (kRows > 3) StoreRow(d, add, c30, c31, c32, c33, c + 3 * c_stride);
  if constexpr (kRows > 4) StoreRow(d, add, c40, c41, c42, c43, c + 4 * c_stride);
  if constexpr (kRows > 5) StoreRow(d, add, c50, c51, c52, c53, c + 5 * c_stride);
}

// Panel by panel, inner block by inner block, so that a block of B (128 x 64 floats = 32 KiB with AVX-512) stays in L1
// while all rows pass over it.
template <class D>
void MultiplyTile(D d, const TileProductArgs& args) {
  const std::size_t width = PanelWidth(d);
  const std::size_t panels = (args.num_columns + width - 1) / width;
  for (std::size_t panel = 0; panel < panels; ++panel) {
    for (std::size_t k = 0; k == 0 || k < args.inner; k += kInnerBlock) {
      const std::size_t inner = std::min(kInnerBlock, args.inner - k);
      const float* b = args.b + panel * args.b_panel_stride + static_cast<std::ptrdiff_t>(k) * args.b_row_stride;
      const bool add = args.accumulate || k > 0;
      std::size_t row = 0;
      const auto a_at = [&](std::size_t m) { return args.a + static_cast<std::ptrdiff_t>(m) * args.a_stride + k; };
      const auto c_at = [&](std::size_t m) {
        return args.c + static_cast<std::ptrdiff_t>(m) * args.c_stride + panel * width;
      };
      for (; row + kRowsPerStep <= args.num_rows; row += kRowsPerStep) {
        MultiplyRows<6>(d, a_at(row), args.a_stride, b, args.b_row_stride, inner, add, c_at(row), args.c_stride);
      }
      switch (args.num_rows - row) {
        case 5:
          MultiplyRows<5>(d, a_at(row), args.a_stride, b, args.b_row_stride, inner, add, c_at(row), args.c_stride);
          break;
        case 4:
          MultiplyRows<4>(d, a_at(row), args.a_stride, b, args.b_row_stride, inner, add, c_at(row), args.c_stride);
          break;
        case 3:
          MultiplyRows<3>(d, a_at(row), args.a_stride, b, args.b_row_stride, inner, add, c_at(row), args.c_stride);
          break;
        case 2:
          MultiplyRows<2>(d, a_at(row), args.a_stride, b, args.b_row_stride, inner, add, c_at(row), args.c_stride);
          break;
        case 1:
          MultiplyRows<1>(d, a_at(row), args.a_stride, b, args.b_row_stride, inner, add, c_at(row), args.c_stride);
          break;
        default:
          break;
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
