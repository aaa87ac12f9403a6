// What multiplies a layer's rows by its weights: packed once, used by any number of threads.
#ifndef ATTEND_MATMUL_PRODUCT_H_
#define ATTEND_MATMUL_PRODUCT_H_

#include <cstddef>
#include <string>

#include "engine/kernels/linear_rows.h"

namespace attend::matmul {

// Weights above this do not stay in 1 MiB of L2 beside a block of rows.
inline constexpr std::size_t kLargeWeights = std::size_t{3} << 18;

constexpr bool are_large_weights(std::size_t in, std::size_t out) { return in * out * sizeof(float) > kLargeWeights; }

// Results first to first + count - 1 of each row, `first` a multiple of kernels::kLinearPanel.
struct Columns {
  std::size_t first, count;
};

class Product {
 public:
  virtual ~Product() = default;
  // What runs it, for explain().
  virtual std::string implementation() const = 0;
  // Whether three terms take the time of two multiply-adds with these kernels (kernels/linear_pairs-inl.h).
  virtual bool goes_by_pairs(const kernels::LinearRowsKernels& /*kernels*/) const noexcept { return false; }
  // Whether tiles of bfloat16 parts are multiplied with these kernels (kernels/linear_parts-inl.h).
  virtual bool goes_by_parts(const kernels::LinearRowsKernels& /*kernels*/) const noexcept { return false; }
  // Whether some columns may be multiplied without the others.
  virtual bool splits_columns() const noexcept { return false; }
  // Bytes of scratch that multiplies of up to most_rows rows need, aligned to 64.
  virtual std::size_t scratch_bytes(std::size_t most_rows) const noexcept = 0;
  // Makes what num_calls multiplies at the same time need, so that they allocate nothing.
  virtual void prepare_for(int num_calls) const = 0;
  // results[r] = columns of W rows[r] + b: all of them, unless the product splits them. kernels: of the plan's target,
  // for those that use them; ahead: as in kernels::LinearRowsArgs, likewise. False on failure.
  [[nodiscard]] virtual bool multiply(const kernels::LinearRowsKernels& kernels, const Columns& columns,
                                      const float* const* rows, float* const* results, std::size_t num_rows,
                                      const kernels::LinearAhead& ahead, std::byte* scratch) const = 0;
};

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_PRODUCT_H_
