// Weights in panels for kernels/linear_rows.h.
#ifndef ATTEND_MATMUL_PACKED_ROWS_H_
#define ATTEND_MATMUL_PACKED_ROWS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "attend/tensor_view.h"
#include "engine/matmul/product.h"

namespace attend::matmul {

// Whether products go by pairs of terms (kernels/linear_pairs-inl.h): with instruction sets that have the registers for
// it, or with any.
enum class Pairs { kNo, kWhereFaster, kAlways };

class PackedRows final : public Product {
 public:
  // W (out, in), any strides; bias (out) or not given. Both are copied. pairs: where W is fit for them.
  PackedRows(TensorView<const float> W, TensorView<const float> bias, const char* name, Pairs pairs);

  // Whether sums of pairs keep their accuracy with these weights: all rows of W are finite, of similar norms, since x
  // has one scale for all, and hold them in many elements (kernels::kLeastSpread); and terms are neither few nor too
  // many.
  static bool are_fit_for_pairs(TensorView<const float> W);

  std::string implementation() const override;
  bool goes_by_pairs(const kernels::LinearRowsKernels& kernels) const noexcept override;
  std::size_t scratch_bytes() const noexcept override;
  void prepare_for(int /*num_calls*/) const override {}
  [[nodiscard]] bool multiply(const kernels::LinearRowsKernels& kernels, const float* const* rows,
                              float* const* results, std::size_t num_rows, std::byte* scratch) const override;

 private:
  struct Free {
    void operator()(float* data) const;
  };
  using Floats = std::unique_ptr<float[], Free>;
  static Floats allocate(std::size_t count);

  std::size_t in_, out_;
  Floats panels_, bias_;  // bias_: none if not given
  Pairs pairs_ = Pairs::kNo;
  Floats pair_sums_;       // as kernels::LinearPairsArgs
  float mean_square_ = 0;  // so is this; 0: not fit for pairs
};

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_PACKED_ROWS_H_
