// y = W x + b for tests of the kernels of linear_rows.h, whichever way they multiply.
#ifndef ATTEND_TESTS_KERNELS_LINEAR_PROBLEM_H_
#define ATTEND_TESTS_KERNELS_LINEAR_PROBLEM_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "engine/kernels/linear_rows.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {

// Weights and rows, each array between unmapped pages. What errors of a result are relative to: the sum of its terms'
// magnitudes, or the product of the norms of the two that it is made of; and the bias's magnitude.
class LinearProblem {
 public:
  enum class Unit { kMagnitudes, kNorms };

  LinearProblem(const Target& target, std::size_t most_rows, std::size_t in, std::size_t out, bool with_bias, Unit unit,
                const Draw& draw_w = draw_normal, const Draw& draw_x = draw_normal)
      : kernels_(kernels::linear_rows_kernels(target.id())),
        in_(in),
        out_(out),
        has_bias_(with_bias),
        unit_(unit),
        weights_(kernels::linear_panels(out) * kernels::kLinearPanel * in),
        bias_(kernels::linear_panels(out) * kernels::kLinearPanel),
        x_(most_rows * in),
        y_(most_rows * out) {
    Random random(in * 41 + out);
    for (std::size_t o = 0; o < out; ++o) {
      bias_[o] = with_bias ? random.normal() : 0.0f;
      for (std::size_t k = 0; k < in; ++k) weight(o, k) = draw_w(random);
    }
    for (float& x : x_) x = draw_x(random);
  }

  float& weight(std::size_t o, std::size_t k) {
    constexpr std::size_t kPanel = kernels::kLinearPanel;
    return weights_[(o / kPanel * in_ + k) * kPanel + o % kPanel];
  }
  float& x(std::size_t row, std::size_t k) { return x_[row * in_ + k]; }
  const float* y(std::size_t row) const { return y_.data() + row * out_; }
  // Lines that the last call was told will be written, and has not prefetched.
  std::size_t lines_left() const { return written_next_.num_lines(); }
  std::vector<float> results() const { return {y_.data(), y_.data() + y_.size()}; }

  // Rows `first` to first + count - 1, from the last to the first if reversed. All other results become NaN.
  void multiply_plainly(std::size_t first, std::size_t count, bool reversed = false) {
    multiply_by(kernels_.multiply, first, count, reversed);
  }

  // Of a row: the largest |y - truth|, relative, and the sum of its squares.
  struct Error {
    double largest = 0, squares = 0;
  };
  Error error(std::size_t row) {
    Error error;
    for (std::size_t o = 0; o < out_; ++o) {
      double sum = has_bias_ ? bias_[o] : 0.0, magnitudes = 0, of_x = 0, of_w = 0;
      const double offset = std::abs(sum);
      for (std::size_t k = 0; k < in_; ++k) {
        const double w = weight(o, k), v = x(row, k);
        sum += w * v;
        magnitudes += std::abs(w * v);
        of_x += v * v;
        of_w += w * w;
      }
      const double unit = (unit_ == Unit::kNorms ? std::sqrt(of_x * of_w) : magnitudes) + offset;
      const double relative = unit > 0 ? (y(row)[o] - sum) / unit : y(row)[o] - sum;
      error.largest = worse(error.largest, std::abs(relative));
      error.squares += relative * relative;
    }
    return error;
  }

 protected:
  template <class Multiply>
  void multiply_by(const Multiply& multiply, std::size_t first, std::size_t count, bool reversed) {
    std::fill(y_.begin(), y_.end(), std::numeric_limits<float>::quiet_NaN());
    std::vector<const float*> rows;
    std::vector<float*> results;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t row = first + (reversed ? count - 1 - i : i);
      rows.push_back(x_.data() + row * in_);
      results.push_back(y_.data() + row * out_);
    }
    written_next_ = {.next = y_.data(), .stride = 1, .num_rows = 5, .size = 33};
    multiply({.rows = rows.data(),
              .results = results.data(),
              .num_rows = count,
              .weights = weights_.data(),
              .bias = has_bias_ ? bias_.data() : nullptr,
              .in = in_,
              .out = out_,
              .ahead = {.read = {y_.data(), 5 * in_}, .written = &written_next_}});
  }

  const kernels::LinearRowsKernels kernels_;
  const std::size_t in_, out_;
  const bool has_bias_;
  const Unit unit_;
  GuardedArray<float> weights_, bias_, x_, y_;
  kernels::PrefetchRows written_next_;
};

// Root of the mean square of the errors of the first rows, whose results are there.
inline double typical_error(LinearProblem& problem, std::size_t rows) {
  double squares = 0;
  for (std::size_t row = 0; row < rows; ++row) squares += problem.error(row).squares;
  return std::sqrt(squares / static_cast<double>(rows));
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_KERNELS_LINEAR_PROBLEM_H_
