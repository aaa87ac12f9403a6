// y = W x + b by Winograd's inner products: against double for every count of rows and columns around the kernels'
// tiles, as exact as plain sums on numbers of every kind that goes this way, plain sums' bits for all others, the same
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
constexpr float kInfinity = std::numeric_limits<float>::infinity();
class Problem : public LinearProblem {
 public:
  Problem(const Target& target, std::size_t most_rows, std::size_t in, std::size_t out, bool with_bias,
          const Draw& draw_w = draw_normal, const Draw& draw_x = draw_normal)
      : LinearProblem(target, most_rows, in, out, with_bias, Unit::kNorms, draw_w, draw_x),
        pair_sums_(kernels::linear_panels(out) * kernels::kLinearPanel),
        scratch_(kernels::linear_pairs_scratch(in, most_rows)) {
    double squares = 0;
    for (std::size_t o = 0; o < out; ++o) {
      for (std::size_t k = 0; k < in; ++k) squares += static_cast<double>(weight(o, k)) * weight(o, k);
      double sum = 0;
      const std::size_t pairs = kernels::num_pairs(in);
      for (std::size_t j = 0; j < pairs; ++j) {
        sum += (j % 2 == 0 ? 1.0 : -1.0) * static_cast<double>(weight(o, 3 * j)) * weight(o, 3 * j + 1);
      }
      pair_sums_[o] = static_cast<float>(sum);
    }
    mean_square_ = static_cast<float>(squares / static_cast<double>(in * out));
  }

  void multiply(std::size_t first, std::size_t count, bool reversed = false) {
    std::fill(scratch_.begin(), scratch_.end(), kNaN);
    const auto by_pairs = [&](const kernels::LinearRowsArgs& linear) {
      kernels_.multiply_by_pairs({.linear = linear,
                                  .pair_sums = pair_sums_.data(),
                                  .weights_mean_square = mean_square_,
                                  .scratch = scratch_.data(),
                                  .prefetches_again = count % 2 == 0});  // which is not to be seen
    };
    multiply_by(by_pairs, first, count, reversed);
  }

 private:
  float mean_square_ = 0;
  GuardedArray<float> pair_sums_, scratch_;
};

double typical_error(Problem& problem, std::size_t rows, bool by_pairs) {
  by_pairs ? problem.multiply(0, rows) : problem.multiply_plainly(0, rows);
  return typical_error(problem, rows);
}

}  // namespace

TEST_CASE(
    "linear pairs: equals double for counts of rows, columns and terms around the tiles, nothing beyond is touched") {
  constexpr std::size_t kRows = 20;
  for_each_target([&](const Target& target) {
    for (const std::size_t out : {1, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 48, 65}) {
      for (const std::size_t in : {1u, 3u, 5u, 6u, 11u, 12u, 14u, 40u, 47u, 97u, 300u}) {
        for (const bool with_bias : {false, true}) {
          Problem problem(target, kRows, in, out, with_bias);
          for (std::size_t count = 0; count <= kRows; count += in < 100 ? 1 : 4) {
            const std::size_t first = kRows - count;
            problem.multiply(first, count, count % 2 == 1);
            double worst = 0;
            for (std::size_t row = first; row < kRows; ++row) worst = worse(worst, problem.error(row).largest);
            INFO(out, " x ", in, ", ", count, " rows, bias ", with_bias);
            CHECK(worst <= 4e-7);
            CHECK(problem.lines_left() == (count == 0 ? 15 : 0));
            for (std::size_t i = 0; i < first * out; ++i) REQUIRE(std::isnan(problem.y(0)[i]));
          }
        }
      }
    }
  });
}

TEST_CASE("linear pairs: rows are as exact as plain sums whatever their size, mean and sign") {
  constexpr std::size_t kRows = 12, kOut = 40;
  struct Kind {
    const char* name;
    Draw draw;
  };
  const Kind kinds[] = {{"normal", draw_normal},
                        {"positive", [](Random& random) { return random.uniform(0, 1); }},
                        {"nearly constant", [](Random& random) { return 3 + 0.01f * random.normal(); }},
                        {"left by a ReLU", [](Random& random) { return std::max(random.normal(), 0.0f); }},
                        {"tiny", [](Random& random) { return 1e-11f * random.normal(); }},
                        {"huge", [](Random& random) { return 1e11f * random.normal(); }}};
  for_each_target([&](const Target& target) {
    for (const Kind& kind : kinds) {
      for (const std::size_t in : {192u, 770u}) {
        Problem problem(
            target, kRows, in, kOut, false, [](Random& random) { return 0.03f * random.normal(); }, kind.draw);
        const double plain = typical_error(problem, kRows, false), pairs = typical_error(problem, kRows, true);
        INFO(kind.name, ", ", in, " terms: ", pairs, " by pairs, ", plain, " plain");
        CHECK(pairs <= 1.5 * plain);
        CHECK(pairs != plain);
      }
    }
  });
}

TEST_CASE("linear pairs: rows that would lose by them have the bits of plain sums") {
  constexpr std::size_t kRows = 10, kIn = 100, kOut = 35;
  for_each_target([&](const Target& target) {
    Problem problem(target, kRows, kIn, kOut, false);  // beside a bias, small sums would vanish
    for (std::size_t k = 0; k < kIn; ++k) {
      problem.x(0, k) = 0;                             // zeros
      problem.x(1, k) = k == 7 ? 2.5f : 0.0f;          // one number
      problem.x(2, k) *= k % 25 == 3 ? 100.0f : 1.0f;  // a few hold the norm
      problem.x(3, k) *= 1e30f;                        // squares overflow
      problem.x(4, k) *= 1e-30f;                       // squares vanish
      problem.x(7, k) *= 1e-21f;                       // squares lose their last digits
    }
    problem.x(5, 50) = kNaN;
    problem.x(6, 99) = kInfinity;
    problem.multiply_plainly(0, kRows);
    const std::vector<float> plain = problem.results();
    problem.multiply(0, kRows);
    const std::vector<float> mixed = problem.results();
    for (std::size_t row = 0; row < kRows; ++row) {
      INFO("row ", row);
      CHECK(same_bits(&plain[row * kOut], &mixed[row * kOut], kOut) == (row < 8));
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      problem.multiply(row, 1);
      INFO("row ", row, " alone");
      CHECK(problem.lines_left() == 0);
      CHECK(same_bits(problem.y(row), &mixed[row * kOut], kOut));
    }
  });
}

TEST_CASE("linear pairs: a row's bits depend neither on the other rows nor on their number") {
  // More rows than are copied at a time.
  constexpr std::size_t kMost = kernels::kMaxPairsRows, kFew = kernels::kFewPairsRows, kRows = kMost + 11;
  for_each_target([&](const Target& target) {
    // The third: several blocks of weights. The last: fewer rows are copied at a time than calls of a few have.
    static_assert(kernels::linear_pairs_rows(1500, kFew) < kFew && kernels::linear_pairs_rows(1500, kRows) < kMost);
    for (const auto& sizes :
         std::vector<std::pair<std::size_t, std::size_t>>{{7, 12}, {100, 66}, {400, 600}, {40, 1500}}) {
      const std::size_t out = sizes.first, in = sizes.second;
      Problem problem(target, kRows, in, out, true);
      for (std::size_t row = 0; row < kRows; row += 5) std::fill_n(&problem.x(row, 1), in - 1, 0.0f);  // go plain
      std::vector<float> expected;
      for (std::size_t row = 0; row < kRows; ++row) {
        problem.multiply(row, 1);
        expected.insert(expected.end(), problem.y(row), problem.y(row) + out);
      }
      for (const std::size_t count : std::vector<std::size_t>{2, 3, 8, 9, 10, 19, 37, kFew - 1, kFew, kFew + 1,
                                                              kMost - 1, kMost, kMost + 1, kRows}) {
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

}  // namespace attend::tests
