// C = A B or C += A B for one tile, B in panels or in rows of whole panels: the scores Q K^T and the pooling P V are
// both this product.
#ifndef ATTEND_KERNELS_TILE_PRODUCT_H_
#define ATTEND_KERNELS_TILE_PRODUCT_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

struct TileProductArgs {
  const float* a;           // row m at a + m * a_stride, inner elements; read as scalars, so no padding is needed
  std::ptrdiff_t a_stride;  // elements
  const float*
      b;  // panels (pack.h): row k of panel p at b + p * b_panel_stride + k * b_row_stride, panel_width elements
  std::size_t b_panel_stride;   // elements; panel_width for rows used where they lie
  std::ptrdiff_t b_row_stride;  // elements; panel_width for packed panels, any for rows used where they lie
  float* c;                     // row m at c + m * c_stride, whole panels are written; aligned to a vector
  std::ptrdiff_t c_stride;      // elements, a multiple of the lanes
  std::size_t num_rows;         // M of the tile
  std::size_t num_columns;      // panels = ceil(num_columns / panel_width)
  std::size_t inner;            // summed over, in blocks of kInnerBlock
  bool accumulate;              // C += A B; else C = A B
};

// Products over more than this many terms are summed in blocks of it, each from zero, and the blocks added in order.
// The error of a sum of n terms then grows like sqrt(kInnerBlock + n / kInnerBlock) instead of sqrt(n), which is what
// keeps the contract's 2e-7 (4 + max|score|) over thousands of keys; a block costs one load, add and store per 128 FMAs
// of C (below 2 %).
inline constexpr std::size_t kInnerBlock = 128;

struct TileProductKernels {
  // An element of C depends on its row of A, its column of B and inner alone: never on the other rows of the call.
  void (*multiply)(const TileProductArgs&);
};

TileProductKernels tile_product_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_TILE_PRODUCT_H_
