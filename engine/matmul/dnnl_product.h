// The only door to oneDNN: nothing of it shows here. Not part of builds with ATTEND_WITH_ONEDNN=OFF.
#ifndef ATTEND_MATMUL_DNNL_PRODUCT_H_
#define ATTEND_MATMUL_DNNL_PRODUCT_H_

#include <cstddef>
#include <memory>
#include <string>

#include "attend/tensor_view.h"
#include "engine/matmul/product.h"

namespace attend::matmul {

// oneDNN's matmul, weights in the layout it likes. It wants rows one after another: others are gathered and scattered,
// 64 at a time by way of the scratch.
//
// A result row depends on its input row alone, to the last bit, and on no number of threads. oneDNN promises nothing of
// the kind, and its jitted gemm for AVX2 breaks it for row counts that are 2 modulo 6, or 1: the constructor measures
// it, and keeps only the row counts for which it holds; that of one row where no other is left.
class DnnlProduct final : public Product {
 public:
  // Rows to gather or scatter at a time: 64 rows of 768 inputs and outputs are 384 KiB of staging, within L2.
  static constexpr std::size_t kRowBlock = 64;
  // The most rows that oneDNN gets in one call. Large weights, such as the 2.25 MiB of 768 x 768, pass L2 once per
  // call, which is why layers take our own kernel for them (linear.cc): on one core of an Emerald Rapids server with
  // a peak of 175-180 GFLOPS, 1024 rows of them run at 134 in calls of 16 rows, 159 in 64, 164 in 128, 167 in 256, 169
  // in 512 (linear/r1024_i768_o768 measures 256). Smaller weights, 512 x 512 at 170-172, get no more than 64
  // (dnnl_product.cc). What lost, on the same rows: columns in parts that fit L2 (154 against 162: oneDNN 2.6 wants
  // dense results, and the copy eats the gain); W_q, W_k and W_v side by side as one product (1 to 4 % slower than
  // three); the three of one block of rows in turn (within 1 % of map by map); inner_product instead of matmul (150 at
  // any number of rows); weights in huge pages (less than 1 %).
  static constexpr std::size_t kMaxRows = 256;

  // W (out, in), any strides; bias (out) or not given. Both are copied. name: for messages.
  // Errors: Error when oneDNN has no optimised implementation (its reference one is refused).
  DnnlProduct(TensorView<const float> W, TensorView<const float> bias, const char* name);
  ~DnnlProduct() override;

  // Whether oneDNN has an optimised implementation for weights of this shape. It has none for Arm without the Compute
  // Library.
  static bool is_offered(std::size_t in, std::size_t out);

  // Whether rows that the constructor tries come out as W x + b. Versions of oneDNN have defects of their own
  // (dnnl_product.cc), and layers have another product.
  bool is_right() const noexcept;

  // "oneDNN 2.6.3 brg:avx512_core, 256/128/64/48/16/4 rows".
  std::string implementation() const override;
  std::size_t scratch_bytes(std::size_t most_rows) const noexcept override;
  // For up to 256 calls. Where more are in flight at the same time, those of two plans for instance, each makes what it
  // needs and leaves it to later calls.
  void prepare_for(int num_calls) const override;
  // Allocates nothing itself but for that; oneDNN's execute makes some small allocations of its own. False also where
  // there is no memory for it.
  [[nodiscard]] bool multiply(const kernels::LinearRowsKernels& kernels, const Columns& columns,
                              const float* const* rows, float* const* results, std::size_t num_rows,
                              const kernels::LinearAhead& ahead, std::byte* scratch) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_DNNL_PRODUCT_H_
