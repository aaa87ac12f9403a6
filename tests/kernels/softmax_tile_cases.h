// What the tests of the online softmax share.
#ifndef ATTEND_TESTS_KERNELS_SOFTMAX_TILE_CASES_H_
#define ATTEND_TESTS_KERNELS_SOFTMAX_TILE_CASES_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include <hwy/aligned_allocator.h>

#include "engine/kernels/softmax_tile.h"

namespace attend::tests {

// Scores whose e^score is wanted, and scores that are exponents of two already.
struct Scale {
  float given;
  double truth;  // what `given` stands for
};
inline constexpr double kLn2 = 0.69314718055994530942;
inline constexpr Scale kScales[] = {{0x1.715476p+0f, 1.0 / kLn2}, {1.0f, 1.0}};

// l of some rows, as the kernel keeps them.
struct Sums {
  kernels::SoftmaxTileKernels softmax;
  std::size_t rows;
  hwy::AlignedFreeUniquePtr<float[]> data;

  Sums(const kernels::SoftmaxTileKernels& target_kernels, std::size_t num_rows)
      : softmax(target_kernels), rows(num_rows), data(hwy::AllocateAligned<float>(num_rows * softmax.sums_stride)) {
    std::fill_n(data.get(), rows * softmax.sums_stride, 0.0f);
  }
  // In one lane: which does not matter.
  void set(std::size_t row, float sum) { data[row * softmax.sums_stride] = sum; }
  std::vector<double> totals() const {
    std::vector<double> all(rows, -1.0);
    softmax.total_sums(data.get(), rows, all.data());
    return all;
  }
};

}  // namespace attend::tests

#endif  // ATTEND_TESTS_KERNELS_SOFTMAX_TILE_CASES_H_
