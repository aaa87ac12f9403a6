#include "engine/matmul/packed_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>

#include "engine/base/checked.h"

namespace attend::matmul {
namespace {

constexpr std::align_val_t kLine{64};

// Fewer terms than these have little to gain from pairs; of more, so few rows are copied at a time that weights would
// be read from memory again and again.
constexpr std::size_t kLeastPairedTerms = 64, kMostPairedTerms = 2048;

struct RowSums {
  double squares = 0, sizes = 0;
};

RowSums sums_of_row(TensorView<const float> W, std::int64_t o) {
  RowSums sums;
  for (std::int64_t k = 0; k < W.size(1); ++k) {
    const double w = *W.at(o, k);
    sums.squares += w * w;
    sums.sizes += std::abs(w);
  }
  return sums;
}

// The mean square of an element in a row between the least and the greatest norm of W; 0: W is not fit for pairs.
double mean_square_for_pairs(TensorView<const float> W) {
  const auto in = static_cast<double>(W.size(1));
  if (in < kLeastPairedTerms || in > kMostPairedTerms) return 0;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (std::int64_t o = 0; o < W.size(0); ++o) {
    const auto [squares, sizes] = sums_of_row(W, o);
    if (!std::isfinite(squares) || sizes * sizes < kernels::kLeastSpread * in * squares) return 0;
    least = std::min(least, squares);
    most = std::max(most, squares);
  }
  const double mean_square = std::sqrt(least * most) / in;
  const bool alike = most <= double{kernels::kMostNormRatio} * kernels::kMostNormRatio * least;
  return alike && mean_square >= kernels::kLeastMeanSquare && mean_square <= kernels::kMostMeanSquare ? mean_square : 0;
}

}  // namespace

bool PackedRows::are_fit_for_pairs(TensorView<const float> W) { return mean_square_for_pairs(W) > 0; }

void PackedRows::Free::operator()(float* data) const { ::operator delete(data, kLine); }

PackedRows::Floats PackedRows::allocate(std::size_t count) {
  Floats floats(static_cast<float*>(::operator new(count * sizeof(float), kLine)));
  std::fill_n(floats.get(), count, 0.0f);
  return floats;
}

PackedRows::PackedRows(TensorView<const float> W, TensorView<const float> bias, const char* name, Pairs pairs)
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
  if (!bias.empty()) {
    bias_ = allocate(padded_out);
    for (std::size_t o = 0; o < out_; ++o) bias_[o] = *bias.at(static_cast<std::int64_t>(o));
  }
  if (pairs == Pairs::kNo) return;
  mean_square_ = static_cast<float>(mean_square_for_pairs(W));
  if (mean_square_ == 0) return;
  pairs_ = pairs;
  pair_sums_ = allocate(padded_out);
  const auto count = static_cast<std::int64_t>(kernels::num_pairs(in_));
  for (std::size_t o = 0; o < out_; ++o) {
    const auto row = static_cast<std::int64_t>(o);
    double sum = 0;
    for (std::int64_t j = 0; j < count; ++j) {
      const double pair = static_cast<double>(*W.at(row, 3 * j)) * *W.at(row, 3 * j + 1);
      sum += j % 2 == 0 ? pair : -pair;
    }
    pair_sums_[o] = static_cast<float>(sum);
  }
}

std::string PackedRows::implementation() const {
  const char* pairs = pairs_ == Pairs::kNo       ? ""
                      : pairs_ == Pairs::kAlways ? ", by pairs of terms"
                                                 : ", on AVX3 by pairs of terms";
  return std::string("own kernel, panels of 16 columns, any rows") + pairs;
}

bool PackedRows::goes_by_pairs(const kernels::LinearRowsKernels& kernels) const noexcept {
  return pairs_ == Pairs::kAlways || (pairs_ == Pairs::kWhereFaster && kernels.has_registers_for_pairs);
}

std::size_t PackedRows::scratch_bytes() const noexcept {
  return pairs_ == Pairs::kNo ? 0 : kernels::linear_pairs_scratch(in_) * sizeof(float);
}

bool PackedRows::multiply(const kernels::LinearRowsKernels& kernels, const float* const* rows, float* const* results,
                          std::size_t num_rows, std::byte* scratch) const {
  const kernels::LinearRowsArgs args{.rows = rows,
                                     .results = results,
                                     .num_rows = num_rows,
                                     .weights = panels_.get(),
                                     .bias = bias_.get(),
                                     .in = in_,
                                     .out = out_};
  if (goes_by_pairs(kernels)) {
    kernels.multiply_by_pairs({.linear = args,
                               .pair_sums = pair_sums_.get(),
                               .weights_mean_square = mean_square_,
                               .scratch = reinterpret_cast<float*>(scratch)});
  } else {
    kernels.multiply(args);
  }
  return true;
}

}  // namespace attend::matmul
