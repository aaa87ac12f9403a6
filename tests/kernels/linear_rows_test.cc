// y = W x + b by our own kernel: against double for every count of rows and columns around the kernels' tiles, the same
// bits whichever rows come together, and nothing touched beyond the rows.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/linear_rows.h"
#include "tests/kernels/linear_problem.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
struct Problem : LinearProblem {
  Problem(const Target& target, std::size_t most_rows, std::size_t in, std::size_t out, bool with_bias)
      : LinearProblem(target, most_rows, in, out, with_bias, Unit::kMagnitudes) {}

  void multiply(std::size_t first, std::size_t count, bool reversed = false) {
    multiply_plainly(first, count, reversed);
  }
};

}  // namespace

TEST_CASE("linear rows: equals double for counts of rows and columns around the tiles, nothing beyond is touched") {
  constexpr std::size_t kRows = 20;
  for_each_target([&](const Target& target) {
    for (const std::size_t out :
         {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 80, 97, 130}) {
      for (const std::size_t in : {1u, 2u, 7u, 40u}) {
        for (const bool with_bias : {false, true}) {
          Problem problem(target, kRows, in, out, with_bias);
          for (std::size_t count = 0; count <= kRows; ++count) {
            const std::size_t first = kRows - count;
            problem.multiply(first, count, count % 2 == 1);
            double worst = 0;
            for (std::size_t row = first; row < kRows; ++row) worst = worse(worst, problem.error(row).largest);
            INFO(out, " x ", in, ", ", count, " rows, bias ", with_bias);
            CHECK(worst <= 2.5e-7 * (1 + std::sqrt(static_cast<double>(in)) / 4));
            CHECK(problem.lines_left() == (count == 0 ? 15 : 0));
            for (std::size_t i = 0; i < first * out; ++i) REQUIRE(std::isnan(problem.y(0)[i]));
          }
        }
      }
    }
  });
}

TEST_CASE("linear rows: a row's bits depend neither on the other rows nor on their number") {
  constexpr std::size_t kRows = 40;
  for_each_target([&](const Target& target) {
    // The last: several blocks of weights (320 KiB each).
    for (const auto& sizes : std::vector<std::pair<std::size_t, std::size_t>>{{7, 5}, {100, 33}, {700, 600}}) {
      const std::size_t out = sizes.first, in = sizes.second;
      Problem problem(target, kRows, in, out, true);
      std::vector<float> expected;
      for (std::size_t row = 0; row < kRows; ++row) {
        problem.multiply(row, 1);
        expected.insert(expected.end(), problem.y(row), problem.y(row) + out);
      }
      for (std::size_t count = 2; count <= kRows; count += count < 12 ? 1 : 7) {
        for (const bool reversed : {false, true}) {
          const std::size_t first = count % 3 == 0 ? kRows - count : 0;
          problem.multiply(first, count, reversed);
          INFO(out, " x ", in, ", ", count, " rows");
          CHECK(same_bits(problem.y(first), expected.data() + first * out, count * out));
        }
      }
    }
  });
}

TEST_CASE("linear rows: large weights equal double") {
  for_each_target([&](const Target& target) {
    Problem problem(target, 11, 900, 530, true);
    problem.multiply(0, 11);
    for (std::size_t row = 0; row < 11; ++row) CHECK(problem.error(row).largest <= 4e-7);
  });
}

TEST_CASE("linear rows: NaN and infinity stay in their row and their column") {
  constexpr std::size_t kRows = 13, kIn = 21, kOut = 50;
  for_each_target([&](const Target& target) {
    Problem problem(target, kRows, kIn, kOut, true);
    problem.multiply(0, kRows);
    const std::vector<float> expected = problem.results();
    for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
      const float x = std::exchange(problem.x(5, 3), bad), w = std::exchange(problem.weight(17, 20), bad);
      problem.multiply(0, kRows);
      for (std::size_t row = 0; row < kRows; ++row) {
        for (std::size_t o = 0; o < kOut; ++o) {
          const float y = problem.y(row)[o];
          if (row == 5 || o == 17) {
            CHECK(!std::isfinite(y));
          } else {
            CHECK(same_bits(&y, &expected[row * kOut + o], 1));
          }
        }
      }
      problem.x(5, 3) = x;
      problem.weight(17, 20) = w;
    }
  });
}

TEST_CASE("linear rows: no terms leave the bias, no rows and no columns do nothing") {
  for_each_target([&](const Target& target) {
    const kernels::LinearRowsKernels kernels = kernels::linear_rows_kernels(target.id());
    alignas(64) const float bias[kernels::kLinearPanel] = {3, 4};
    alignas(64) const float weights[kernels::kLinearPanel] = {};
    const float* row = bias;
    float results[2] = {kNaN, kNaN};
    float* result = results;
    kernels::LinearRowsArgs args{
        .rows = &row, .results = &result, .num_rows = 0, .weights = weights, .bias = bias, .in = 0, .out = 2};
    kernels.multiply(args);
    CHECK(std::isnan(results[0]));
    args.num_rows = 1;
    args.out = 0;
    kernels.multiply(args);
    CHECK(std::isnan(results[0]));
    args.out = 2;
    kernels.multiply(args);
    CHECK(results[0] == 3.0f);
    CHECK(results[1] == 4.0f);
  });
}

}  // namespace attend::tests
