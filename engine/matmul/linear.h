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
  // Rows to gather or scatter at a time: 64 rows of 768 inputs and outputs are 384 KiB of staging, within L2.
  static constexpr std::size_t kRowBlock = 64;
  // The most rows that oneDNN gets in one call, and the rows to ask for where nothing is staged. Weights that do not
  // stay in L2, such as the 2.25 MiB of 768 x 768, pass it once per call: on one core of an Emerald Rapids server with
  // a peak of 175-180 GFLOPS, 1024 rows of them run at 134 in calls of 16 rows, 159 in 64, 164 in 128, 167 in 256, 169
  // in 512 (linear/r1024_i768_o768 measures 256). Smaller weights, 512 x 512 at 170-172, get no more than 64
  // (linear.cc). What lost, on the same rows: columns in parts that fit L2 (154 against 162: oneDNN 2.6 wants dense
  // results, and the copy eats the gain); W_q, W_k and W_v side by side as one product (1 to 4 % slower than three);
  // the three of one block of rows in turn (within 1 % of map by map); inner_product instead of matmul (150 at any
  // number of rows); weights in huge pages (less than 1 %).
  static constexpr std::size_t kMostRows = 256;

  // W (out, in), any strides; bias (out) or not given. Both are copied. name: for messages, "W_q".
  // Errors: Error when oneDNN has no optimised implementation (its reference one is refused).
  Linear(TensorView<const float> W, TensorView<const float> bias, const char* name);
  ~Linear();

  std::size_t in_size() const noexcept;
  std::size_t out_size() const noexcept;
  // What runs it, for explain(): "oneDNN 2.6.3 brg:avx512_core, 256/128/64/48/16/4/1 rows".
  const std::string& implementation() const noexcept;
  // Bytes of scratch a multiply needs, aligned to 64.
  std::size_t scratch_bytes() const noexcept;

  // Rows that multiply reads and writes when asked for num_rows: num_rows or a little more, never beyond the next
  // multiple of kRowBlock. The caller's buffers hold that many; what the extra source rows hold does not matter, as
  // long as it can be read.
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
