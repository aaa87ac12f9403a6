#include "engine/matmul/packed_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "attend/target.h"
#include "engine/base/checked.h"
#include "engine/base/cpus.h"

namespace attend::matmul {
namespace {

Memory<float> zeros(std::size_t count) {
  Memory<float> floats = allocate_elements<float>(count);
  std::fill_n(floats.get(), count, 0.0f);
  return floats;
}

// Fewer terms than these have little to gain from pairs; of more, so few rows are copied at a time that weights would
// be read from memory again and again.
constexpr std::size_t kMinPairedTerms = 64, kMaxPairedTerms = 2048;

// Of fewer terms, what is left out of products is more than n 2^-24 sum |w x| allows.
constexpr std::int64_t kMinPartsTerms = 32;

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
  if (in < kMinPairedTerms || in > kMaxPairedTerms) return 0;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (std::int64_t o = 0; o < W.size(0); ++o) {
    const auto [squares, sizes] = sums_of_row(W, o);
    if (!std::isfinite(squares) || sizes * sizes < kernels::kMinSpread * in * squares) return 0;
    least = std::min(least, squares);
    most = std::max(most, squares);
  }
  const double mean_square = std::sqrt(least * most) / in;
  const bool alike = most <= double{kernels::kMaxNormRatio} * kernels::kMaxNormRatio * least;
  return alike && mean_square >= kernels::kMinMeanSquare && mean_square <= kernels::kMaxMeanSquare ? mean_square : 0;
}

}  // namespace

bool PackedRows::are_fit_for_pairs(TensorView<const float> W) { return mean_square_for_pairs(W) > 0; }

bool PackedRows::are_fit_for_parts(TensorView<const float> W) {
  if (W.size(1) < kMinPartsTerms) return false;
  for (std::int64_t o = 0; o < W.size(0); ++o) {
    float most = 0;
    for (std::int64_t k = 0; k < W.size(1); ++k) {
      const float size = std::abs(*W.at(o, k));
      if (!(size <= kernels::kMaxWeightWithParts)) return false;  // NaN, too
      most = std::max(most, size);
    }
    if (most != 0.0f && most < kernels::kMinLinearPart) return false;
  }
  return true;
}

bool PackedRows::has_tiles() { return kernels::linear_rows_kernels(Target::best().id()).has_tiles; }

PackedRows::PackedRows(TensorView<const float> W, TensorView<const float> bias, const char* name, When pairs,
                       When parts)
    : in_(static_cast<std::size_t>(W.size(1))), out_(static_cast<std::size_t>(W.size(0))) {
  constexpr std::size_t kPanel = kernels::kLinearPanel;
  const std::size_t padded_out = kernels::linear_panels(out_) * kPanel;
  panels_ = zeros(checked_multiply(checked_multiply(padded_out, in_, name), sizeof(float), name) / sizeof(float));
  for (std::size_t o = 0; o < out_; ++o) {
    float* column = panels_.get() + o / kPanel * in_ * kPanel + o % kPanel;
    for (std::size_t k = 0; k < in_; ++k) {
      column[k * kPanel] = *W.at(static_cast<std::int64_t>(o), static_cast<std::int64_t>(k));
    }
  }
  if (!bias.empty()) {
    bias_ = zeros(padded_out);
    for (std::size_t o = 0; o < out_; ++o) bias_[o] = *bias.at(static_cast<std::int64_t>(o));
  }
  if (parts != When::kNever && are_fit_for_parts(W)) {
    parts_ = parts;
    take_parts(name);
  }
  if (pairs == When::kNever) return;
  mean_square_ = static_cast<float>(mean_square_for_pairs(W));
  if (mean_square_ == 0) return;
  pairs_ = pairs;
  take_pair_sums(W);
}

void PackedRows::take_pair_sums(TensorView<const float> W) {
  pair_sums_ = zeros(kernels::linear_panels(out_) * kernels::kLinearPanel);
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

void PackedRows::take_parts(const char* name) {
  const std::size_t bytes =
      checked_multiply(kernels::parts_size(out_, 1), kernels::parts_size(1, in_) * sizeof(std::uint16_t), name) /
      (kernels::kNumParts * kernels::kPartsTile);
  parts_of_panels_ = allocate_elements<std::uint16_t>(bytes / sizeof(std::uint16_t));
  // The same bits on every target.
  kernels::linear_rows_kernels(Target::best().id()).pack_parts(panels_.get(), in_, out_, parts_of_panels_.get());
}

std::string PackedRows::implementation() const {
  const auto also = [](When when, const std::string& on, const char* how) {
    return when == When::kNever ? std::string() : (when == When::kAlways ? ", by " : ", on " + on + " by ") + how;
  };
  return "own kernel, panels of 16 columns, any rows" + also(parts_, "AVX3", "bfloat16 parts") +
         also(pairs_, this_cpu().is_zen5() ? "AVX3" : "AVX2 and AVX3", "pairs of terms");
}

bool PackedRows::goes_by_pairs(const kernels::LinearRowsKernels& kernels) const noexcept {
  return pairs_ == When::kAlways || (pairs_ == When::kWhereFaster && kernels.has_registers_for_pairs);
}

bool PackedRows::goes_by_parts(const kernels::LinearRowsKernels& kernels) const noexcept {
  return parts_ == When::kAlways || (parts_ == When::kWhereFaster && kernels.has_tiles);
}

std::size_t PackedRows::scratch_bytes(std::size_t most_rows) const noexcept {
  const std::size_t of_pairs =
      pairs_ == When::kNever ? 0 : kernels::linear_pairs_scratch(in_, most_rows) * sizeof(float);
  const std::size_t of_parts =
      parts_ == When::kNever ? 0 : kernels::linear_parts_scratch(in_, most_rows) * sizeof(std::uint16_t);
  return std::max(of_pairs, of_parts);
}

bool PackedRows::multiply(const kernels::LinearRowsKernels& kernels, const Columns& columns, const float* const* rows,
                          float* const* results, std::size_t num_rows, const kernels::LinearAhead& ahead,
                          std::byte* scratch) const {
  const std::size_t panel = columns.first / kernels::kLinearPanel;
  const kernels::LinearRowsArgs args{.rows = rows,
                                     .results = results,
                                     .num_rows = num_rows,
                                     .weights = panels_.get() + columns.first * in_,
                                     .bias = bias_ == nullptr ? nullptr : bias_.get() + columns.first,
                                     .in = in_,
                                     .out = columns.count,
                                     .ahead = ahead};
  if (goes_by_parts(kernels)) {
    const std::size_t panel_parts = kernels::parts_size(kernels::kLinearPanel, in_);
    kernels.multiply_by_parts({.linear = args,
                               .parts = parts_of_panels_.get() + panel * panel_parts,
                               .scratch = reinterpret_cast<std::uint16_t*>(scratch)});
  } else if (goes_by_pairs(kernels)) {
    // Zen 5 has what L2 holds in L1 in time by itself, and starting instructions bounds products by pairs there: AVX3,
    // with prefetches in all steps and in none, linear/r256_i768_o768 1193 and 1118 us, r512_i256_o256 281 and 263. Zen
    // 4 is not measured without.
    kernels.multiply_by_pairs({.linear = args,
                               .pair_sums = pair_sums_.get() + columns.first,
                               .weights_mean_square = mean_square_,
                               .scratch = reinterpret_cast<float*>(scratch),
                               .prefetches_again = !this_cpu().is_zen5()});
  } else {
    kernels.multiply(args);
  }
  return true;
}

}  // namespace attend::matmul
