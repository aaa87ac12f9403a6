// Weights in panels for kernels/linear_rows.h.
#ifndef ATTEND_MATMUL_PACKED_ROWS_H_
#define ATTEND_MATMUL_PACKED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "attend/tensor_view.h"
#include "engine/base/memory.h"
#include "engine/matmul/product.h"

namespace attend::matmul {

// Whether products go by pairs of terms (kernels/linear_pairs-inl.h) or by bfloat16 parts (kernels/linear_parts-inl.h):
// with instruction sets, and on CPUs, that have the registers and the tiles for it, or with any.
enum class When { kNever, kWhereFaster, kAlways };

class PackedRows final : public Product {
 public:
  // W (out, in), any strides; bias (out) or not given. Both are copied. pairs, parts: where W is fit for them; parts
  // come first.
  PackedRows(TensorView<const float> W, TensorView<const float> bias, const char* name, When pairs, When parts);

  // Whether sums of pairs keep their accuracy with these weights: all rows of W are finite, of similar norms, since x
  // has one scale for all, and hold them in many elements (kernels::kMinSpread); and terms are neither few nor too
  // many.
  static bool are_fit_for_pairs(TensorView<const float> W);

  // Whether sums of parts keep their accuracy with these weights: rows are neither huge nor tiny, as
  // kernels::kMinLinearPart says, and terms are not few.
  static bool are_fit_for_parts(TensorView<const float> W);
  // Whether this CPU multiplies tiles, by the best instruction set of this build.
  static bool has_tiles();

  std::string implementation() const override;
  bool goes_by_pairs(const kernels::LinearRowsKernels& kernels) const noexcept override;
  bool goes_by_parts(const kernels::LinearRowsKernels& kernels) const noexcept override;
  bool splits_columns() const noexcept override { return true; }
  std::size_t scratch_bytes(std::size_t most_rows) const noexcept override;
  void prepare_for(int /*num_calls*/) const override {}
  [[nodiscard]] bool multiply(const kernels::LinearRowsKernels& kernels, const Columns& columns,
                              const float* const* rows, float* const* results, std::size_t num_rows,
                              const kernels::LinearAhead& ahead, std::byte* scratch) const override;

 private:
  void take_pair_sums(TensorView<const float> W);
  void take_parts(const char* name);

  std::size_t in_, out_;
  Memory<float> panels_, bias_;  // bias_: none if not given
  When pairs_ = When::kNever;
  Memory<float> pair_sums_;  // as kernels::LinearPairsArgs
  float mean_square_ = 0;    // so is this; 0: not fit for pairs
  When parts_ = When::kNever;
  Memory<std::uint16_t> parts_of_panels_;  // as kernels::LinearPartsArgs
};

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_PACKED_ROWS_H_
