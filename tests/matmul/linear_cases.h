// Maps and calls for the tests of y = W x + b.
#ifndef ATTEND_TESTS_MATMUL_LINEAR_CASES_H_
#define ATTEND_TESTS_MATMUL_LINEAR_CASES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/linear_rows.h"
#include "engine/matmul/linear.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"
#include "tests/support/tiles.h"

namespace attend::tests {

using matmul::Implementation;
using matmul::Linear;

struct MapSize {
  std::int64_t out, in;
};
// One element, odd sizes, sizes around vectors and blocks, the projections, the largest that oneDNN gets and a
// little more, large weights of odd sizes.
inline constexpr MapSize kMapSizes[] = {{1, 1},     {3, 5},     {17, 1},    {1, 33},    {16, 16},
                                        {64, 64},   {65, 63},   {100, 20},  {256, 192}, {256, 256},
                                        {129, 257}, {384, 512}, {384, 513}, {768, 768}, {513, 1000}};

// The kernels of the instruction set under test.
inline const kernels::LinearRowsKernels& rows_kernels() {
  static const kernels::LinearRowsKernels kKernels = kernels::linear_rows_kernels(targets_under_test().front().id());
  return kKernels;
}

// Each product that this build and machine have for W: our own, plain, by pairs of terms and by bfloat16 parts, and
// oneDNN unless all it offers is its reference.
inline std::vector<Linear> all_linears(TensorView<const float> W, TensorView<const float> bias) {
  std::vector<Linear> maps;
  maps.emplace_back(W, bias, "W", Implementation::kLinearRows);
  maps.emplace_back(W, bias, "W", Implementation::kLinearPairs);
  maps.emplace_back(W, bias, "W", Implementation::kLinearParts);
  const std::string refused = error_message([&] { maps.emplace_back(W, bias, "W", Implementation::kOneDnn); });
  if (refused != "") CHECK((refused.find("reference") != refused.npos || refused.find("without") != refused.npos));
  return maps;
}

// How rows lie: one after another, each on its own in a place of its own, or the last first.
enum class Lie { kDense, kApart, kReversed };

// Rows between unmapped pages, as many as multiply may read or write and not one more.
class Call {
 public:
  Call(const Linear& map, std::size_t num_rows, Lie lie = Lie::kDense)
      : num_rows_(num_rows),
        in_(map.in_size()),
        out_(map.out_size()),
        gap_(lie == Lie::kApart ? 3 : 0),
        source_(memory_of(in_)),
        destination_(memory_of(out_)),
        scratch_((map.scratch_bytes() + 63) / 64 * 64) {
    std::fill(source_.begin(), source_.end(), std::numeric_limits<float>::quiet_NaN());
    std::fill(destination_.begin(), destination_.end(), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t r = 0; r < num_rows; ++r) {
      const std::size_t at = lie == Lie::kReversed ? num_rows - 1 - r : r;
      rows_.push_back(source_.data() + at * (in_ + gap_));
      results_.push_back(destination_.data() + at * (out_ + gap_));
    }
  }
  float* row(std::size_t r) { return source_.data() + (rows_[r] - source_.data()); }
  const float* result(std::size_t r) const { return results_[r]; }
  // Rows `first` and on of a dense matrix.
  void fill_rows(const std::vector<float>& x, std::size_t first = 0) {
    for (std::size_t r = 0; r < num_rows_; ++r) std::copy_n(x.data() + (first + r) * in_, in_, row(r));
  }
  bool multiply(const Linear& map) {
    return map.multiply(rows_kernels(), rows_.data(), results_.data(), num_rows_, scratch_.data());
  }
  bool multiply_columns(const Linear& map, const matmul::Columns& columns) {
    std::vector<float*> results = results_;
    for (float*& result : results) result += columns.first;
    return map.multiply_columns(rows_kernels(), columns, rows_.data(), results.data(), num_rows_, scratch_.data());
  }
  // Whether the results are those rows of a dense matrix, and nothing between them was written.
  bool equals(const std::vector<float>& expected, std::size_t first = 0) const {
    for (std::size_t r = 0; r < num_rows_; ++r) {
      if (!same_bits(result(r), expected.data() + (first + r) * out_, out_)) return false;
    }
    if (gap_ == 0) return true;
    for (std::size_t r = 0; r + 1 < num_rows_; ++r) {
      if (!std::all_of(result(r) + out_, result(r) + out_ + gap_, [](float x) { return std::isnan(x); })) return false;
    }
    return true;
  }

 private:
  std::size_t memory_of(std::size_t size) const { return num_rows_ == 0 ? 0 : num_rows_ * (size + gap_) - gap_; }

  std::size_t num_rows_, in_, out_, gap_;
  GuardedArray<float> source_, destination_;
  GuardedArray<std::byte> scratch_;
  std::vector<const float*> rows_;
  std::vector<float*> results_;
};

// Row r's result on its own, row after row.
inline std::vector<float> row_by_row(const Linear& map, const std::vector<float>& rows) {
  std::vector<float> results;
  for (std::size_t row = 0; row < rows.size() / map.in_size(); ++row) {
    Call call(map, 1);
    call.fill_rows(rows, row);
    CHECK(call.multiply(map));
    results.insert(results.end(), call.result(0), call.result(0) + map.out_size());
  }
  return results;
}

inline TensorView<const float> view_of(const Tensor& tensor) {
  return tensor.data.empty() ? TensorView<const float>() : tensor.view();
}

// By parts where tiles are in memory: all rows of any but small weights would take a minute, sanitized of any.
inline bool takes_long(const Linear& map) {
  const bool in_memory = map.goes_by_parts(rows_kernels()) && !rows_kernels().has_tiles;
  return in_memory && (ATTEND_IS_SANITIZED != 0 || map.in_size() * map.out_size() > 5000);
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_MATMUL_LINEAR_CASES_H_
