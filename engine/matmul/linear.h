// y = W x + b for blocks of rows, W packed once. The only door to oneDNN: nothing of it shows here.
#ifndef ATTEND_MATMUL_LINEAR_H_
#define ATTEND_MATMUL_LINEAR_H_

#include <cstddef>
#include <memory>
#include <string>

#include "attend/tensor_view.h"

namespace attend::matmul {

// An affine map whose weights were packed for the machine when it was built. Immutable; any number of threads may
// multiply at the same time, each with scratch of its own. One thread per call: parallelism is the caller's, over
// blocks of rows.
//
// A result row depends on its input row alone, to the last bit: not on its place in the block nor on the number of
// rows. The constructor measures this (oneDNN promises nothing of the kind, and its jitted gemm for AVX2 breaks it for
// row counts that are 2 modulo 6) and keeps only the row counts for which it holds.
class Linear {
 public:
  // The most rows of one multiply: 64 x 768 x 768 runs at 155 of 180 GFLOPS on one core of an Emerald Rapids server, 16
  // rows at 133, and 64 rows of 768 inputs and outputs are 384 KiB of staging, within L2.
  static constexpr std::size_t kRowBlock = 64;

  // W (out, in), any strides; bias (out) or not given. Both are copied. name: for messages, "W_q".
  // Errors: Error when oneDNN has no optimised implementation (its reference one is refused).
  Linear(TensorView<const float> W, TensorView<const float> bias, const char* name);
  ~Linear();

  std::size_t in_size() const noexcept;
  std::size_t out_size() const noexcept;
  // What runs it, for explain(): "oneDNN 2.6.3 brg:avx512_core, 64/16/4 rows".
  const std::string& implementation() const noexcept;
  // Bytes of scratch a multiply needs, aligned to 64.
  std::size_t scratch_bytes() const noexcept;

  // Rows that multiply reads and writes when asked for num_rows <= kRowBlock: num_rows or a little more, at most
  // kRowBlock. The caller's buffers hold that many; what the extra source rows hold does not matter, as long as it can
  // be read.
  std::size_t padded_rows(std::size_t num_rows) const noexcept;

  // Makes what num_calls multiplies at the same time need, so that they allocate nothing. Called when planning.
  void prepare_for(int num_calls) const;

  // destination (padded_rows, out) = source (padded_rows, in) W^T + b, both dense.
  // Allocates nothing itself; oneDNN's execute makes some small allocations of its own. False if oneDNN reports a
  // failure.
  [[nodiscard]] bool multiply(const float* source, float* destination, std::size_t num_rows, std::byte* scratch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_LINEAR_H_
