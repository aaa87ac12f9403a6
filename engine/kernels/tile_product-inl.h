// C = A B by outer products: one element of A is broadcast against a panel row of B, so that no lane ever moves
// sideways.
//
// Scalar step:  c[m][n] += a[m][k] * b[k][n]
// Registers:    6 rows of A times kVectorsPerPanel vectors of B: 24 accumulators + 4 of B + 1 broadcast of 32 registers
//               with AVX-512 and NEON, 12 + 2 + 1 of 16 with AVX2 and SSE. Six rows and two vectors are the 12
//               independent sums that cover 4 cycles of latency on 2 FMA ports with room to spare; four vectors
//               amortise the broadcast further. Of a panel only the vectors are computed that hold columns some row
//               of the step wants: keys that end within it, value sizes of 32 or 80. bench: tile_product/*. On AVX2
//               two whole panels go together (two_panels-inl.h).
#if defined(ATTEND_KERNELS_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_TILE_PRODUCT_INL_H_
#undef ATTEND_KERNELS_TILE_PRODUCT_INL_H_
#else
#define ATTEND_KERNELS_TILE_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/panel-inl.h"
#include "engine/kernels/tile_block-inl.h"
#include "engine/kernels/tile_product.h"
#include "engine/kernels/two_panels-inl.h"
#include "engine/simd/compat-inl.h"

// One lane gains from being inlined, see MultiplyRows.
#undef ATTEND_MULTIPLY_ROWS
#if HWY_TARGET == HWY_SCALAR
#define ATTEND_MULTIPLY_ROWS HWY_INLINE
#else
#define ATTEND_MULTIPLY_ROWS HWY_NOINLINE
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = attend::HWY_NAMESPACE;

// kRows rows of A times the first kVectors vectors of one panel of B over one block of the inner dimension. Rows and
// vectors that do not exist compile away; those that do run the same operations in the same order whatever their
// number.
//
// Not inlined: among the variables of its caller, g++ 12 kept the pointers of two rows in vector registers, and moving
// them back took the ports of the FMAs 2 times in 26. tile_product/qk_m48_n512_d64 on AVX3: 89 -> 97 % of the peak. Two
// terms per turn; four are no faster, and g++ runs out of registers, but on AVX2 (kSumsStay): EPYC (Zen 3), the same to
// within 1 % on a core of one's own (tile_product/*/AVX2), 4 to 5 % less time while others' threads run on it.
template <std::size_t kRows, std::size_t kVectors, class D>
ATTEND_MULTIPLY_ROWS void MultiplyRows(D d, const BlockArgs& args, const float* HWY_RESTRICT a, size_t inner,
                                       float* HWY_RESTRICT c, float* HWY_RESTRICT max_lanes) {
  static_assert(kRows <= kRowsPerStep && 1 <= kVectors && kVectors <= kVectorsPerPanel && kVectorsPerPanel <= 4);
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d);
  V c00 = zero, c01 = zero, c02 = zero, c03 = zero;
  V c10 = zero, c11 = zero, c12 = zero, c13 = zero;
  V c20 = zero, c21 = zero, c22 = zero, c23 = zero;
  V c30 = zero, c31 = zero, c32 = zero, c33 = zero;
  V c40 = zero, c41 = zero, c42 = zero, c43 = zero;
  V c50 = zero, c51 = zero, c52 = zero, c53 = zero;

  const float* HWY_RESTRICT b = args.b;
  const std::ptrdiff_t b_stride = args.b_stride, a_stride = args.a_stride;
  const float* HWY_RESTRICT a0 = a;
  const float* HWY_RESTRICT a1 = kRows > 1 ? a0 + a_stride : a0;
  const float* HWY_RESTRICT a2 = kRows > 2 ? a1 + a_stride : a0;
  const float* HWY_RESTRICT a3 = kRows > 3 ? a2 + a_stride : a0;
  const float* HWY_RESTRICT a4 = kRows > 4 ? a3 + a_stride : a0;
  const float* HWY_RESTRICT a5 = kRows > 5 ? a4 + a_stride : a0;
  V b1 = zero, b2 = zero, b3 = zero;
#define ATTEND_ROW(row, a, k, r0, r1, r2, r3)                                  \
  if constexpr (kRows > row) {                                                 \
    const V broadcast = hn::Set(d, a[k]);                                      \
    simd::AddProductInOrder(d, broadcast, b0, r0);                             \
    if constexpr (kVectors > 1) simd::AddProductInOrder(d, broadcast, b1, r1); \
    if constexpr (kVectors > 2) simd::AddProductInOrder(d, broadcast, b2, r2); \
    if constexpr (kVectors > 3) simd::AddProductInOrder(d, broadcast, b3, r3); \
  }
#define ATTEND_TERM(k)                                            \
  {                                                               \
    const V b0 = hn::LoadU(d, b);                                 \
    if constexpr (kVectors > 1) b1 = hn::LoadU(d, b + lanes);     \
    if constexpr (kVectors > 2) b2 = hn::LoadU(d, b + 2 * lanes); \
    if constexpr (kVectors > 3) b3 = hn::LoadU(d, b + 3 * lanes); \
    b += b_stride;                                                \
    ATTEND_ROW(0, a0, k, c00, c01, c02, c03)                      \
    ATTEND_ROW(1, a1, k, c10, c11, c12, c13)                      \
    ATTEND_ROW(2, a2, k, c20, c21, c22, c23)                      \
    ATTEND_ROW(3, a3, k, c30, c31, c32, c33)                      \
    ATTEND_ROW(4, a4, k, c40, c41, c42, c43)                      \
    ATTEND_ROW(5, a5, k, c50, c51, c52, c53)                      \
  }
  size_t k = 0;
  if constexpr (simd::kSumsStay) {
    for (; k + 4 <= inner; k += 4) {
      ATTEND_TERM(k)
      ATTEND_TERM(k + 1)
      ATTEND_TERM(k + 2)
      ATTEND_TERM(k + 3)
    }
  }
  for (; k + 2 <= inner; k += 2) {
    ATTEND_TERM(k)
    ATTEND_TERM(k + 1)
  }
  for (; k < inner; ++k) ATTEND_TERM(k)
#undef ATTEND_TERM
#undef ATTEND_ROW
  const std::ptrdiff_t c_stride = args.c_stride;
  const size_t next = max_lanes == nullptr ? 0 : lanes;
  StoreRow<kVectors>(d, args, c00, c01, c02, c03, c, max_lanes);
  if constexpr (kRows > 1) StoreRow<kVectors>(d, args, c10, c11, c12, c13, c += c_stride, max_lanes += next);
  if constexpr (kRows > 2) StoreRow<kVectors>(d, args, c20, c21, c22, c23, c += c_stride, max_lanes += next);
  if constexpr (kRows > 3) StoreRow<kVectors>(d, args, c30, c31, c32, c33, c += c_stride, max_lanes += next);
  if constexpr (kRows > 4) StoreRow<kVectors>(d, args, c40, c41, c42, c43, c += c_stride, max_lanes += next);
  if constexpr (kRows > 5) StoreRow<kVectors>(d, args, c50, c51, c52, c53, c += c_stride, max_lanes += next);
}

template <std::size_t kVectors, class D>
HWY_INLINE void MultiplyVectors(D d, const BlockArgs& args, size_t rows, const float* a, size_t inner, float* c,
                                float* max_lanes) {
  switch (rows) {
    case 6:
      return MultiplyRows<6, kVectors>(d, args, a, inner, c, max_lanes);
    case 5:
      return MultiplyRows<5, kVectors>(d, args, a, inner, c, max_lanes);
    case 4:
      return MultiplyRows<4, kVectors>(d, args, a, inner, c, max_lanes);
    case 3:
      return MultiplyRows<3, kVectors>(d, args, a, inner, c, max_lanes);
    case 2:
      return MultiplyRows<2, kVectors>(d, args, a, inner, c, max_lanes);
    default:
      return MultiplyRows<1, kVectors>(d, args, a, inner, c, max_lanes);
  }
}

// columns: how many are wanted, from the panel's first on, beyond its end too.
template <class D>
HWY_INLINE void MultiplyStep(D d, const BlockArgs& args, size_t rows, size_t columns, const float* a, size_t inner,
                             float* c, float* max_lanes) {
  const size_t lanes = hn::Lanes(d);
  if (HWY_LIKELY(columns > (kVectorsPerPanel - 1) * lanes)) {
    return MultiplyVectors<kVectorsPerPanel>(d, args, rows, a, inner, c, max_lanes);
  }
  if constexpr (kVectorsPerPanel > 2) {
    if (columns > 2 * lanes) return MultiplyVectors<3>(d, args, rows, a, inner, c, max_lanes);
    if (columns > lanes) return MultiplyVectors<2>(d, args, rows, a, inner, c, max_lanes);
  }
  MultiplyVectors<1>(d, args, rows, a, inner, c, max_lanes);
}

// The most that any row of a step sees.
HWY_INLINE size_t LongestOf(const std::int32_t* lens, size_t rows) {
  return static_cast<size_t>(*std::max_element(lens, lens + rows));
}

// lens, or nullptr if they keep nothing out: most tiles of a run, which are then spared the looking at each step.
HWY_INLINE const std::int32_t* ThatLimit(const std::int32_t* lens, size_t rows, size_t all) {
  if (lens == nullptr || all == 0) return nullptr;
  std::int32_t shortest = lens[0];
  for (size_t r = 1; r < rows; ++r) shortest = std::min(shortest, lens[r]);
  return static_cast<size_t>(shortest) < all ? lens : nullptr;
}

// Rows first_row to end_row - 1 by one panel, inner block by inner block, so that a block of B (128 x 64 floats, 32 KiB
// with AVX-512) stays in L1 while all rows pass over it. lens and inner_lens: of args, or nullptr where they limit
// nothing.
template <class D>
HWY_INLINE void MultiplyPanel(D d, const TileProductArgs& args, size_t panel, size_t first_row, size_t end_row,
                              const std::int32_t* lens, const std::int32_t* inner_lens) {
  const size_t width = PanelWidth(d), lanes = hn::Lanes(d);
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(first_row);
  for (size_t k = 0; k == 0 || k < args.inner; k += kInnerBlock) {
    const BlockArgs block = BlockOf(d, args, panel, k);
    const size_t most = std::min(kInnerBlock, args.inner - k);
    const float* a = args.a + first * args.a_stride + k;
    float* c = args.c + first * args.c_stride + panel * width;
    float* max_lanes =
        args.max_lanes != nullptr && k + most == args.inner ? args.max_lanes + first_row * lanes : nullptr;
    for (size_t row = first_row; row < end_row; row += kRowsPerStep) {
      const size_t rows = std::min(kRowsPerStep, end_row - row);
      const size_t columns = lens == nullptr ? args.num_columns : LongestOf(lens + row, rows);
      size_t inner = most;
      bool skip = columns <= panel * width;
      if (inner_lens != nullptr) {
        const size_t longest = LongestOf(inner_lens + row, rows);
        inner = longest <= k ? 0 : std::min(most, longest - k);
        skip = skip || (inner == 0 && block.add);  // what is not added to is written
      }
      if (args.ahead != nullptr) args.ahead->fetch(kPrefetchRowsPerStep);
      if (!skip) MultiplyStep(d, block, rows, columns - panel * width, a, inner, c, max_lanes);
      a += static_cast<std::ptrdiff_t>(rows) * args.a_stride;
      c += static_cast<std::ptrdiff_t>(rows) * args.c_stride;
      if (max_lanes != nullptr) max_lanes += rows * lanes;
    }
  }
}

template <class D>
void MultiplyTile(D d, const TileProductArgs& args) {
  if (args.num_rows == 0) return;
  const std::int32_t* lens = ThatLimit(args.lens, args.num_rows, args.num_columns);
  const std::int32_t* inner_lens = ThatLimit(args.inner_lens, args.num_rows, args.inner);
  for (size_t panel = 0; panel * PanelWidth(d) < args.num_columns; ++panel) {
    if constexpr (simd::kSumsStay) {
      if (lens == nullptr && inner_lens == nullptr && TwoPanelsAreFaster(d, args, panel)) {
        MultiplyTwoPanels(d, args, panel++);
        continue;
      }
    }
    MultiplyPanel(d, args, panel, 0, args.num_rows, lens, inner_lens);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
