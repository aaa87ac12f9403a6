#include "engine/matmul/packed_rows.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "engine/base/checked.h"

namespace attend::matmul {
namespace {
constexpr std::align_val_t kLine{64};
}  // namespace

void PackedRows::Free::operator()(float* data) const { ::operator delete(data, kLine); }

PackedRows::Floats PackedRows::allocate(std::size_t count) {
  Floats floats(static_cast<float*>(::operator new(count * sizeof(float), kLine)));
  std::fill_n(floats.get(), count, 0.0f);
  return floats;
}

PackedRows::PackedRows(TensorView<const float> W, TensorView<const float> bias, const char* name)
    : in_(static_cast<std::size_t>(W.size(1))), out_(static_cast<std::size_t>(W.size(0))) {
  constexpr std::size_t kPanel = kernels::kLinearPanel;
  const std::size_t padded_out = kernels::linear_panels(out_) * kPanel;
  panels_ = allocate(checked_multiply(checked_multiply(padded_out, in_, name), sizeof(float), name) / sizeof(float));
  for (std::size_t o = 0; o < out_; ++o) {
    float* column = panels_.get() + o / kPanel * in_ * kPanel + o % kPanel;
    for (std::size_t k = 0; k < in_; ++k) {
      column[k * kPanel] = *W.at(static_cast<std::int64_t>(o), static_cast<std::int64_t>(k));
    }
  }
  if (bias.empty()) return;
  bias_ = allocate(padded_out);
  for (std::size_t o = 0; o < out_; ++o) bias_[o] = *bias.at(static_cast<std::int64_t>(o));
}

bool PackedRows::multiply(const kernels::LinearRowsKernels& kernels, const float* const* rows, float* const* results,
                          std::size_t num_rows, std::byte* /*scratch*/) const {
  kernels.multiply({.rows = rows,
                    .results = results,
                    .num_rows = num_rows,
                    .weights = panels_.get(),
                    .bias = bias_.get(),
                    .in = in_,
                    .out = out_});
  return true;
}

}  // namespace attend::matmul
