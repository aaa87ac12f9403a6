// y = W x + b by bfloat16 parts, in tiles where this CPU has them and in memory elsewhere: against double for counts of
// rows, columns and terms around the tiles, as exact as plain sums on numbers of every kind that goes this way, plain
// sums' bits for all others, the same bits whichever rows come together, and nothing touched beyond the rows.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
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
      : LinearProblem(target, most_rows, in, out, with_bias, Unit::kMagnitudes, draw_w, draw_x),
        parts_(kernels::parts_size(out, in)),
        scratch_(kernels::linear_parts_scratch(in, most_rows)) {
    kernels_.pack_parts(weights_.data(), in, out, parts_.data());
  }

  void multiply(std::size_t first, std::size_t count, bool reversed = false) {
    std::fill(scratch_.begin(), scratch_.end(), std::uint16_t{0x7fc0});  // NaN
    // What a call of so many rows needs, up to the unmapped page.
    std::uint16_t* scratch = scratch_.data() + scratch_.size() - kernels::linear_parts_scratch(in_, count);
    const auto by_parts = [&](const kernels::LinearRowsArgs& linear) {
      kernels_.multiply_by_parts({.linear = linear, .parts = parts_.data(), .scratch = scratch});
    };
    multiply_by(by_parts, first, count, reversed);
  }

 private:
  GuardedArray<std::uint16_t> parts_, scratch_;
};

// What no sum can exceed: roundings of two chains of 16 terms and of their sum, of six sums added for every 32 terms,
// and of the bias, and what is left out. From 32 terms on, less than n 2^-24.
double most_error(std::size_t in) { return (20 + 6 * static_cast<double>((in + 31) / 32 - 1)) * 0x1p-24; }

}  // namespace

TEST_CASE("linear parts: equals double for counts of rows, columns and terms around the tiles, nothing beyond") {
  constexpr std::size_t kRows = 40;
  const std::vector<std::size_t> few = {1, 2, 15, 16, 17, 31, 32, 33, 40};
  std::vector<std::size_t> all;
  for (std::size_t count = 0; count <= kRows; ++count) all.push_back(count);
  for_each_target([&](const Target& target) {
    const auto check = [&](std::size_t in, std::size_t out, bool with_bias, const std::vector<std::size_t>& counts) {
      Problem problem(target, kRows, in, out, with_bias);
      for (const std::size_t count : counts) {
        const std::size_t first = kRows - count;
        problem.multiply(first, count, count % 2 == 1);
        double worst = 0;
        for (std::size_t row = first; row < kRows; ++row) worst = worse(worst, problem.error(row).largest);
        INFO(out, " x ", in, ", ", count, " rows, bias ", with_bias);
        CHECK(worst <= std::min(most_error(in), 4e-7));
        for (std::size_t i = 0; i < first * out; ++i) REQUIRE(std::isnan(problem.y(0)[i]));
      }
    };
    for (const std::size_t out : {1, 3, 15, 16, 17, 31, 32, 33, 48, 49, 65, 100}) {
      for (const std::size_t in : {1, 7, 16, 31, 32, 33, 63, 64, 65, 100}) check(in, out, (in + out) % 3 == 0, {1, 33});
    }
    for (const std::size_t size : {17, 32, 67}) {
      check(size, size, true, all);
      check(size + 30, size, false, few);
    }
    check(768, 100, true, {40});
    check(100, 768, false, {40});
    check(1100, 40, true, few);  // two slices
  });
}

TEST_CASE("linear parts: rows are as exact as plain sums whatever their size, mean and sign") {
  constexpr std::size_t kRows = 12, kOut = 40;
  const auto small_normal = [](Random& random) { return 0.03f * random.normal(); };
  const auto positive = [](Random& random) { return random.uniform(0, 1); };
  struct Kind {
    std::string name;
    Draw x, w;
  };
  const Kind kinds[] = {
      {"normal", draw_normal, small_normal},
      {"positive", positive, small_normal},
      {"both positive", positive, positive},
      {"nearly constant", [](Random& random) { return 3 + 0.01f * random.normal(); }, small_normal},
      {"constant", [](Random&) { return 1.7f; }, [](Random&) { return 0.3f; }},
      {"left by a ReLU", [](Random& random) { return std::max(random.normal(), 0.0f); }, small_normal},
      {"a few large", [](Random& random) { return random.normal() * (random.integer(0, 50) == 0 ? 100 : 1); },
       small_normal},
      {"of all sizes", [](Random& random) { return random.normal() * std::exp2(random.uniform(-30, 30)); },
       [](Random& random) { return random.normal() * std::exp2(random.uniform(-30, 30)); }},
      {"tiny", [](Random& random) { return 1e-11f * random.normal(); },
       [](Random& random) { return 1e-11f * random.normal(); }},
      {"huge", [](Random& random) { return 1e18f * random.normal(); },
       [](Random& random) { return 1e11f * random.normal(); }}};
  for_each_target([&](const Target& target) {
    for (const Kind& kind : kinds) {
      for (const std::size_t in : {64u, 192u, 770u}) {
        Problem problem(target, kRows, in, kOut, false, kind.w, kind.x);
        Problem::Error of[2];
        for (const bool by_parts : {false, true}) {
          by_parts ? problem.multiply(0, kRows) : problem.multiply_plainly(0, kRows);
          for (std::size_t row = 0; row < kRows; ++row) {
            const Problem::Error error = problem.error(row);
            of[by_parts].squares += error.squares / (kRows * kOut);
            of[by_parts].largest = worse(of[by_parts].largest, error.largest);
          }
        }
        const double plain = std::sqrt(of[false].squares), parts = std::sqrt(of[true].squares);
        INFO(kind.name, ", ", in, " terms: ", parts, " by parts, ", plain, " plain; at most ", of[true].largest, ", ",
             of[false].largest);
        // Where few terms outweigh the others, what is left out shows.
        CHECK(parts <= 1.1 * plain);
        CHECK(of[true].largest <= 1.1 * of[false].largest);
        CHECK(parts != plain);
      }
    }
  });
}

TEST_CASE("linear parts: rows that have no parts have the bits of plain sums") {
  constexpr std::size_t kRows = 10, kIn = 100, kOut = 35;
  for_each_target([&](const Target& target) {
    Problem problem(target, kRows, kIn, kOut, true);
    for (std::size_t k = 0; k < kIn; ++k) {
      problem.x(3, k) *= 1e30f;
      problem.x(4, k) *= 1e-30f;
      problem.x(8, k) = 0;
    }
    problem.x(0, 99) = kNaN;
    problem.x(1, 50) = -kInfinity;
    problem.x(2, 7) = 1.9e19f;  // more than 2^64
    problem.multiply_plainly(0, kRows);
    const std::vector<float> plain = problem.results();
    problem.multiply(0, kRows);
    const std::vector<float> mixed = problem.results();
    for (std::size_t row = 0; row < kRows; ++row) {
      INFO("row ", row);
      CHECK(same_bits(&plain[row * kOut], &mixed[row * kOut], kOut) == (row < 5 || row == 8));
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      problem.multiply(row, 1);
      INFO("row ", row, " alone");
      CHECK(same_bits(problem.y(row), &mixed[row * kOut], kOut));
    }
  });
}

TEST_CASE("linear parts: a row's bits depend neither on the other rows nor on their number") {
  constexpr std::size_t kRows = 2 * kernels::kMaxPartsRows + 43;
  struct Size {
    std::size_t out, in;
  };
  for_each_target([&](const Target& target) {
    for (const Size& size : {Size{7, 12}, Size{50, 66}, Size{33, 1100}}) {
      const std::size_t out = size.out, in = size.in, rows = in > 1000 ? 45 : kRows;
      Problem problem(target, rows, in, out, true);
      for (std::size_t row = 0; row < rows; row += 5) problem.x(row, in - 1) = 1e25f;  // go plain
      std::vector<float> expected;
      for (std::size_t row = 0; row < rows; ++row) {
        problem.multiply(row, 1);
        expected.insert(expected.end(), problem.y(row), problem.y(row) + out);
      }
      for (std::size_t count : {2u, 3u, 16u, 17u, 32u, 33u, 45u, 127u, 128u, 129u, 160u, 257u, 299u}) {
        if (count > rows) continue;
        for (const bool reversed : {false, true}) {
          const std::size_t first = count % 3 == 0 ? rows - count : 0;
          problem.multiply(first, count, reversed);
          INFO(out, " x ", in, ", ", count, " rows");
          CHECK(same_bits(problem.y(first), expected.data() + first * out, count * out));
        }
      }
    }
  });
}

}  // namespace attend::tests
