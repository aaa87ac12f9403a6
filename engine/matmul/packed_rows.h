// Weights in panels for kernels/linear_rows.h.
#ifndef ATTEND_MATMUL_PACKED_ROWS_H_
#define ATTEND_MATMUL_PACKED_ROWS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "attend/tensor_view.h"
#include "engine/matmul/product.h"

namespace attend::matmul {

class PackedRows final : public Product {
 public:
  // W (out, in), any strides; bias (out) or not given. Both are copied.
  PackedRows(TensorView<const float> W, TensorView<const float> bias, const char* name);

  std::string implementation() const override { return "own kernel, panels of 16 columns, any rows"; }
  std::size_t scratch_bytes() const noexcept override { return 0; }
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
};

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_PACKED_ROWS_H_
