// y = W x + b for any rows x, wherever each lies, from weights packed once for all targets.
#ifndef ATTEND_KERNELS_LINEAR_ROWS_H_
#define ATTEND_KERNELS_LINEAR_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

// Weights lie in panels of 16 columns of W^T, one cache line per term of the sum whatever the target: column o of
// term k at (o / 16 * in + k) * 16 + o % 16, zeros after the last. 16 floats are a vector of AVX-512, two of AVX2,
// four of SSE and NEON; a wider kernel reads several panels side by side. Longer vectors (SVE, RVV) use 16 lanes.
inline constexpr std::size_t kLinearPanel = 16;

inline constexpr std::size_t linear_panels(std::size_t out) { return (out + kLinearPanel - 1) / kLinearPanel; }

struct LinearRowsArgs {
  const float* const* rows;  // x of row r at rows[r], `in` elements, read as scalars; the same row may come twice
  float* const* results;     // y of row r at results[r], exactly `out` elements are written; overlap nothing
  std::size_t num_rows;
  const float* weights;  // panels, aligned to a cache line
  const float* bias;     // linear_panels(out) * kLinearPanel elements, zeros after the last; nullptr: none
  std::size_t in;
  std::size_t out;
};

struct LinearRowsKernels {
  // An element of y depends on its row of x and its row of W alone, never on the other rows of the call nor on their
  // number: each is one chain of multiply-adds, from 0, in the order of k, then the bias.
  void (*multiply)(const LinearRowsArgs&);
};

LinearRowsKernels linear_rows_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_LINEAR_ROWS_H_
