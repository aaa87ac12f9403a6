// y = W x + b for any rows x, W packed once.
#ifndef ATTEND_MATMUL_LINEAR_H_
#define ATTEND_MATMUL_LINEAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "attend/tensor_view.h"
#include "engine/matmul/product.h"

namespace attend::matmul {

// What a Linear may be held to. By size: on CPUs with tiles (AMX), our own kernel by bfloat16 parts, and on CPUs that
// add beside multiplying by pairs of terms, where the weights are fit for it (PackedRows), plain for other targets than
// AVX-512, or on Zen 4 AVX2; else, with AVX-512 and on Arm, oneDNN for weights that stay in L2 beside a block of rows,
// our own kernel above (kernels/linear_rows.h), which passes over large weights in blocks that do; without AVX-512
// always our own, and where this oneDNN multiplies wrongly. The weights, the CPU and oneDNN decide, never the number of
// rows, so that a row's bits do not depend on its company.
enum class Implementation { kBySize, kOneDnn, kLinearRows, kLinearPairs, kLinearParts };

// An affine map whose weights were packed for the machine when it was built. Immutable; any number of threads may
// multiply at the same time, each with scratch of its own. One thread per call: parallelism is the caller's, over
// blocks of rows.
//
// A result row depends on its input row alone, to the last bit: not on its place in the call nor on the number of rows.
class Linear {
 public:
  // Rows of a call: as many as there are, up to this. More gain nothing, and fewer blocks are harder to share.
  static constexpr std::size_t kMaxRows = 256;
  // Where results are to be used while they are in cache.
  static constexpr std::size_t kRowBlock = 64;
  // Where there is to be little scratch; at most 2 kRowBlock.
  std::size_t few_rows(const kernels::LinearRowsKernels& kernels) const noexcept {
    if (goes_by_parts(kernels)) return kernels::linear_parts_few_rows(in_size_);
    return prefetches_reads(kernels) ? 2 * kRowBlock : kRowBlock;
  }
  // Whether multiply_columns prefetches LinearAhead::read. Weights are that small then, and come into L1 once for all
  // rows of a call: EPYC (Zen 4) without AVX-512, additive/b64_m1_n100_u256/AVX2 2 % less with twice as many.
  bool prefetches_reads(const kernels::LinearRowsKernels& kernels) const noexcept {
    return kernels.pairs_by_slices && kernels::are_one_block(in_size_, out_size_) && goes_by_pairs(kernels);
  }

  // W (out, in), any strides; bias (out) or not given. Both are copied. name: for messages, "W_q".
  // Errors: Error when held to oneDNN where it has no optimised implementation (its reference one is refused), or where
  // this build is without it.
  Linear(TensorView<const float> W, TensorView<const float> bias, const char* name,
         Implementation asked = Implementation::kBySize);

  std::size_t in_size() const noexcept { return in_size_; }
  std::size_t out_size() const noexcept { return out_size_; }
  // What runs it and why, for explain().
  const std::string& implementation() const noexcept { return implementation_; }
  // Whether the plan's instruction set does the work; oneDNN takes the best it finds, whatever the plan's is.
  bool runs_on_plan_target() const noexcept { return own_; }
  // Whether three terms take the time of two multiply-adds with these kernels.
  bool goes_by_pairs(const kernels::LinearRowsKernels& kernels) const noexcept {
    return product_->goes_by_pairs(kernels);
  }
  // Whether tiles of bfloat16 parts are multiplied with these kernels.
  bool goes_by_parts(const kernels::LinearRowsKernels& kernels) const noexcept {
    return product_->goes_by_parts(kernels);
  }
  // Bytes of scratch that multiplies of up to most_rows rows need, aligned to 64.
  std::size_t scratch_bytes(std::size_t most_rows = kMaxRows) const noexcept {
    return product_->scratch_bytes(most_rows);
  }

  // Makes what num_calls multiplies at the same time need, so that they allocate nothing (oneDNN: up to 256 of them).
  // Called when planning.
  void prepare_for(int num_calls) const { product_->prepare_for(num_calls); }

  // results[r] (out) = W rows[r] (in) + b. Rows may lie anywhere, also in one place; results overlap nothing. kernels:
  // of the plan's target. Allocates nothing itself, once prepared; oneDNN's execute makes some small allocations of its
  // own. False if oneDNN reports a failure or there is no memory; never throws.
  [[nodiscard]] bool multiply(const kernels::LinearRowsKernels& kernels, const float* const* rows,
                              float* const* results, std::size_t num_rows, std::byte* scratch) const {
    return product_->multiply(kernels, {0, out_size_}, rows, results, num_rows, {}, scratch);
  }
  // Whether columns may be shared out too: weights are read once, then, however many threads have a part in them.
  bool splits_columns() const noexcept { return product_->splits_columns(); }
  // The same of some columns, where that is so: results[r] is where the first of them goes. Same bits. ahead: what
  // our own kernel prefetches meanwhile.
  [[nodiscard]] bool multiply_columns(const kernels::LinearRowsKernels& kernels, const Columns& columns,
                                      const float* const* rows, float* const* results, std::size_t num_rows,
                                      std::byte* scratch, const kernels::LinearAhead& ahead = {}) const {
    return product_->multiply(kernels, columns, rows, results, num_rows, ahead, scratch);
  }

 private:
  std::size_t in_size_, out_size_;
  bool own_ = false;
  std::unique_ptr<const Product> product_;
  std::string implementation_;
};

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_LINEAR_H_
