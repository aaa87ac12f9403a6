// One step of the online softmax over a tile of scores, and its end.
//
// Scalar recurrence, per row and key tile (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, algorithm
// 1):
//     m' = max(m, max_j s_j)     c = exp(m - m')     p_j = exp(s_j - m')     l' = c l + sum_j p_j     o' = c o + sum_j
//     p_j v_j
// and at the end o / l. Any m near the maximum does, since o / l does not depend on it: m moves only when a tile's
// maximum exceeds it by more than 8 (softmax_tile-inl.h), so most tiles have c = 1.
#ifndef ATTEND_KERNELS_SOFTMAX_TILE_H_
#define ATTEND_KERNELS_SOFTMAX_TILE_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

struct SoftmaxTileArgs {
  float* scores;                 // row r at scores + r * scores_stride: scores in, p out, in place
  std::ptrdiff_t scores_stride;  // elements, a multiple of the lanes; rows are aligned to a vector
  std::size_t num_rows;
  std::size_t num_columns;   // p is written for all of them, 0 at and beyond the row's length
  const std::int32_t* lens;  // per row, valid columns within this tile, 0 <= lens[r] <= num_columns
  float* row_max;            // m of each row, -inf before the first tile
  double* row_sum;           // l of each row, 0 before the first tile; float would drift over 128 tiles of equal sums
  float* accumulators;  // o, 0 before the first tile: row r at accumulators + r * accumulators_stride, multiplied by c
                        // in place
  std::ptrdiff_t accumulators_stride;  // elements, a multiple of the lanes; rows are aligned to a vector
  std::size_t accumulator_columns;     // a multiple of the lanes
};

struct FinishRowsArgs {
  const float* accumulators;  // o, as above
  std::ptrdiff_t accumulators_stride;
  const double* row_sum;         // l; nullptr: the rows are final already (weights were normalised), copy them
  float* output;                 // row r at output + r * output_stride: o / l, 0 where l is 0; NaN where l is NaN
  std::ptrdiff_t output_stride;  // elements, any
  std::size_t num_rows;
  std::size_t num_columns;  // written exactly; nothing beyond
};

struct SoftmaxTileKernels {
  void (*step)(const SoftmaxTileArgs&);
  void (*finish_rows)(const FinishRowsArgs&);
};

SoftmaxTileKernels softmax_tile_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_SOFTMAX_TILE_H_
