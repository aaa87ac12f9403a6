// C = A B or C += A B for one tile, B in panels or in rows of whole panels: the scores Q K^T and the pooling P V are
// both this product.
#ifndef ATTEND_KERNELS_TILE_PRODUCT_H_
#define ATTEND_KERNELS_TILE_PRODUCT_H_

#include <cstddef>
#include <cstdint>

#include "engine/kernels/prefetch.h"

namespace attend::kernels {

struct TileProductArgs {
  const float* a;           // row m at a + m * a_stride, inner elements; read as scalars, so no padding is needed
  std::ptrdiff_t a_stride;  // elements
  // Panels (pack.h): row k of panel p at b + p * b_panel_stride + k * b_row_stride, panel_width elements.
  const float* b;
  std::size_t b_panel_stride;   // elements; panel_width for rows used where they lie
  std::ptrdiff_t b_row_stride;  // elements; panel_width or a line more for packed panels, any for others
  float* c;                     // row m at c + m * c_stride, whole vectors are written; aligned to a vector
  std::ptrdiff_t c_stride;      // elements, a multiple of the lanes
  std::size_t num_rows;         // M of the tile
  std::size_t num_columns;      // panels = ceil(num_columns / panel_width)
  std::size_t inner;            // summed over, in blocks of kInnerBlock
  bool accumulate;              // C += A B; else C = A B
  // Rows go in steps of kRowsPerStep from the first. lens: valid columns of each row; vectors of which no row of a step
  // sees a column are neither computed nor written. inner_lens: terms of each row; a step sums up to its longest, and
  // rows of A beyond their own length must be 0. nullptr: all.
  const std::int32_t* lens = nullptr;
  const std::int32_t* inner_lens = nullptr;
  // Row r at max_lanes + r * lanes, aligned: the largest of the row's columns n with n % lanes the lane, over all
  // columns that were computed, those that pad the last vector included. NaN may be dropped or win.
  float* max_lanes = nullptr;
  PrefetchRows* ahead = nullptr;  // rows to prefetch meanwhile, kPrefetchRowsPerStep per step of rows; by pairs, fours
};

inline constexpr std::size_t kRowsPerStep = 6;
// One row per step came too late for most queries and outputs of a padded batch, which come from memory. On Zen 5,
// AVX3, dot/b8_h12_m512_n512_d64_lens with 1, 2, 4 and 8: 18.0, 17.5, 17.3, 17.3 ms; dot/b1_h12_m512_n512_d64, whose
// rows are in L3, is as fast with each.
inline constexpr std::size_t kPrefetchRowsPerStep = 4;

// Products over more than this many terms are summed in blocks of it, each from zero, and the blocks added in order.
// The error of a sum of n terms whose roundings have nothing in common then grows like sqrt(kInnerBlock + n /
// kInnerBlock) instead of sqrt(n), which is what keeps the contract's 2e-7 (4 + max|score|) over thousands of keys; a
// block costs one load, add and store per 128 FMAs of C (below 2 %). Equal terms all round one way and are wrong by up
// to kInnerBlock / 3 * 2^-24 of their sum: engine/README.md, contract 6. Blocks short enough for those have some ten
// terms, which is twelve times as many loads, additions and stores of C.
inline constexpr std::size_t kInnerBlock = 128;

struct TileProductKernels {
  // An element of C depends on its row of A, its column of B and inner alone: never on the other rows of the call.
  // inner_lens do not change that: terms beyond a row's own add zeros (if B is finite there).
  void (*multiply)(const TileProductArgs&);
};

TileProductKernels tile_product_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_TILE_PRODUCT_H_
