// One step of the online softmax over a tile of scores, its end, and the weights of rows that it has been through.
//
// Scalar recurrence, per row and key tile (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, algorithm
// 1), with exponents of two:
//     m' = max(m, max_j e_j)     e_j = scale s_j     c = 2^(m - m')     p_j = 2^(e_j - m')
//     l' = c l + sum_j p_j       o' = c o + sum_j p_j v_j
// and at the end o / l. Any m near the maximum does, since o / l does not depend on it: m is a whole number, so that
// every c is a power of two and rounds nothing, and moves only when a tile's maximum exceeds it by more than
// kMaxRise (softmax_row-inl.h), so most tiles have c = 1.
#ifndef ATTEND_KERNELS_SOFTMAX_TILE_H_
#define ATTEND_KERNELS_SOFTMAX_TILE_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

// log2(e): e^s = 2^(kLog2E s).
inline constexpr float kLog2E = 0x1.715476p+0f;

struct SoftmaxTileArgs {
  float* scores;                 // row r at scores + r * scores_stride: scores in, p out, in place
  std::ptrdiff_t scores_stride;  // elements, a multiple of the lanes; rows are aligned to a vector
  std::size_t num_rows;
  std::size_t num_columns;   // p is written for all of them, 0 at and beyond the row's length
  const std::int32_t* lens;  // per row, valid columns within this tile, 0 <= lens[r] <= num_columns
  float scale;               // > 0: scale * score is an exponent of two. log2(e) where e^score is wanted, 1 where the
                             // factor is in the scores already
  const float* max_lanes = nullptr;  // of the product (tile_product.h), for rows whose columns are all valid; nullptr:
                                     // the maxima are found here
  const float* power_exponents = nullptr;  // of each row: a whole number x, m is chosen so that the largest p is about
                                           // 2^x; NaN or nullptr: any that is near
  float* row_max;   // m of each row, in exponents of two: a whole number; -inf before the first tile
  float* row_sums;  // l of each row, row r at row_sums + r * sums_stride, aligned to a vector; 0 before the first tile
  float* accumulators;  // o, not looked at while m is -inf: row r at accumulators + r * accumulators_stride, multiplied
                        // by c in place
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

// weights[r][j] = 2^(scale s_rj - m_r) / l_r
struct WeightsArgs {
  const float* scores;           // as given to step: row r at scores + r * scores_stride
  std::ptrdiff_t scores_stride;  // elements, a multiple of the lanes; rows are aligned to a vector
  std::size_t num_rows;
  std::size_t num_columns;   // written exactly, 0 at and beyond a row's length; nothing beyond
  const std::int32_t* lens;  // per row, valid columns, 0 <= lens[r] <= num_columns
  float scale;
  const float* row_max;           // m after the last step
  const double* row_sum;          // l after the last step, of total_sums; rows with l = 0 are 0, with NaN are NaN
  float* weights;                 // row r at weights + r * weights_stride, of any alignment
  std::ptrdiff_t weights_stride;  // elements, any
};

// weights[r][j] = p_rj / l_r
struct NormaliseArgs {
  const float* powers;           // p of whole rows, as step left them: row r at powers + r * powers_stride
  std::ptrdiff_t powers_stride;  // elements, a multiple of the lanes; rows are aligned to a vector
  std::size_t num_rows;          // the rest as of WeightsArgs
  std::size_t num_columns;
  const std::int32_t* lens;
  const double* row_sum;
  float* weights;
  std::ptrdiff_t weights_stride;
};

struct SoftmaxTileKernels {
  std::size_t sums_stride;  // floats of row_sums per row: two vectors
  void (*step)(const SoftmaxTileArgs&);
  // l of each row. 2^m l is what the weights 2^(scale s) of all keys add up to.
  void (*total_sums)(const float* row_sums, std::size_t num_rows, double* totals);
  void (*weights)(const WeightsArgs&);
  void (*normalise)(const NormaliseArgs&);
  void (*finish_rows)(const FinishRowsArgs&);
};

SoftmaxTileKernels softmax_tile_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_SOFTMAX_TILE_H_
