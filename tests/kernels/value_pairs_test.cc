// Pooling by pairs of terms: against double for every count of rows, keys and columns around the kernel's tiles, as
// exact as the tile product on powers and values of every kind that goes this way, its bits for all others, the same
// bits whichever rows come together, and nothing touched beyond rows and panels.
#include "engine/kernels/value_pairs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/pack.h"
#include "engine/kernels/softmax_tile.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::size_t up_to(std::size_t n, std::size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Rows of powers and the values of some blocks, each array before an unmapped page. Scores are drawn; powers become
// what the online softmax makes of them: the largest about eight times as large as the values.
class Problem {
 public:
  Problem(const Target& target, std::size_t rows, std::size_t keys, std::size_t columns,
          const Draw& draw_score = draw_normal, const Draw& draw_value = draw_normal)
      : num_rows(rows),
        num_keys(keys),
        num_columns(columns),
        width(kernels::pack_kernels(target.id()).panel_width),
        panels((columns + width - 1) / width),
        row_stride(keys % 2 == 0 ? width + 16 : width),
        kernels_(kernels::value_pairs_kernels(target.id())),
        plain_(kernels::tile_product_kernels(target.id())),
        stride_(up_to(keys, width)),
        values_(panels * row_stride * keys),
        pair_sums_(up_to(keys, kernels::kInnerBlock) / kernels::kInnerBlock * panels * width),
        fit_(up_to(keys, kernels::kInnerBlock) / kernels::kInnerBlock * panels),
        powers_(rows * stride_),
        paired_(rows),
        sums_(rows * panels * width),
        lens_(rows, static_cast<std::int32_t>(keys)) {
    std::fill(values_.begin(), values_.end(), kNaN);  // between the rows of panels, too
    for (std::size_t j = 0; j < keys; ++j) {
      for (std::size_t n = 0; n < panels * width; ++n) value(j, n) = 0;
    }
    Random random(keys * 41 + columns);
    double squares = 0;
    for (std::size_t j = 0; j < keys; ++j) {
      for (std::size_t n = 0; n < columns; ++n) {
        value(j, n) = draw_value(random);
        squares += static_cast<double>(value(j, n)) * value(j, n);
      }
    }
    const float exponent = kernels::power_exponent(static_cast<float>(squares / static_cast<double>(keys * columns)));
    std::vector<float> scores(keys);
    for (std::size_t row = 0; row < rows; ++row) {
      for (float& score : scores) score = draw_score(random);
      const float max = *std::max_element(scores.begin(), scores.end());
      for (std::size_t j = 0; j < keys; ++j) power(row, j) = std::exp2(scores[j] - max + exponent);
    }
  }

  // Element n of value j.
  float& value(std::size_t j, std::size_t n) { return values_[(n / width * num_keys + j) * row_stride + n % width]; }
  float& power(std::size_t row, std::size_t j) { return powers_[row * stride_ + j]; }
  std::int32_t& len(std::size_t row) { return lens_[row]; }
  const float* sums(std::size_t row) const { return sums_.data() + row * panels * width; }
  std::int32_t fit(std::size_t block, std::size_t panel) const { return fit_[block * panels + panel]; }
  bool is_fit(std::size_t row) const { return paired_[row].unscale != 0; }

  // Rows first to first + count - 1, all blocks. Sums of other rows become NaN.
  void pool(std::size_t first, std::size_t count, bool by_pairs = true) {
    std::fill(sums_.begin(), sums_.end(), kNaN);
    const float mean_square = kernels_.values({.values = values_.data(),
                                               .panel_stride = num_keys * row_stride,
                                               .row_stride = static_cast<std::ptrdiff_t>(row_stride),
                                               .num_values = num_keys,
                                               .size = num_columns,
                                               .mean_square = 0,
                                               .pair_sums = pair_sums_.data(),
                                               .fit = fit_.data()});
    std::size_t block = 0;
    for (std::size_t k = 0; k < num_keys; k += kernels::kInnerBlock, ++block) {
      const std::size_t keys = std::min(kernels::kInnerBlock, num_keys - k);
      std::vector<std::int32_t> lens;
      for (std::size_t row = first; row < first + count; ++row) {
        const std::int32_t len =
            std::clamp(lens_[row] - static_cast<std::int32_t>(k), 0, static_cast<std::int32_t>(keys));
        lens.push_back(len);
        std::fill_n(&power(row, k) + len, keys - static_cast<std::size_t>(len), 0.0f);
      }
      const kernels::TileProductArgs product{.a = powers_.data() + first * stride_ + k,
                                             .a_stride = static_cast<std::ptrdiff_t>(stride_),
                                             .b = values_.data() + k * row_stride,
                                             .b_panel_stride = num_keys * row_stride,
                                             .b_row_stride = static_cast<std::ptrdiff_t>(row_stride),
                                             .c = sums_.data() + first * panels * width,
                                             .c_stride = static_cast<std::ptrdiff_t>(panels * width),
                                             .num_rows = count,
                                             .num_columns = num_columns,
                                             .inner = keys,
                                             .accumulate = k > 0,
                                             .inner_lens = lens.data(),
                                             .ahead = ahead};
      if (!by_pairs || mean_square == 0) {
        plain_.multiply(product);
        continue;
      }
      kernels_.powers({.powers = product.a,
                       .stride = product.a_stride,
                       .num_rows = count,
                       .num_keys = keys,
                       .lens = lens.data(),
                       .mean_square = mean_square,
                       .paired = paired_.data() + first});
      kernels_.multiply({.product = product,
                         .paired = paired_.data() + first,
                         .pair_sums = pair_sums_.data() + block * panels * width,
                         .fit = fit_.data() + block * panels});
    }
  }

  // Of a row: the largest error and the sum of squares, relative to sum p and the largest value.
  struct Error {
    double largest = 0, squares = 0;
  };
  Error error(std::size_t row) {
    double total = 0, largest_value = 0;
    const auto len = static_cast<std::size_t>(lens_[row]);
    for (std::size_t j = 0; j < len; ++j) total += static_cast<double>(power(row, j));
    for (std::size_t j = 0; j < num_keys; ++j) {
      for (std::size_t n = 0; n < num_columns; ++n) {
        largest_value = std::max(largest_value, std::abs(static_cast<double>(value(j, n))));
      }
    }
    Error error;
    for (std::size_t n = 0; n < num_columns; ++n) {
      double sum = 0;
      for (std::size_t j = 0; j < len; ++j)
        sum += static_cast<double>(power(row, j)) * static_cast<double>(value(j, n));
      const double relative = (sums(row)[n] - sum) / (total * largest_value);
      error.largest = worse(error.largest, std::abs(relative));
      error.squares += relative * relative;
    }
    return error;
  }
  std::vector<float> all_sums() const { return {sums_.data(), sums_.data() + sums_.size()}; }
  bool same_sums(std::size_t row, const std::vector<float>& expected) const {
    return same_bits(sums(row), expected.data() + row * panels * width, num_columns);
  }

  std::size_t rows_per_step() const { return kernels_.has_registers_for_pairs ? 8 : 4; }

  const std::size_t num_rows, num_keys, num_columns, width, panels, row_stride;
  kernels::PrefetchRows* ahead = nullptr;

 private:
  kernels::ValuePairsKernels kernels_;
  kernels::TileProductKernels plain_;
  std::size_t stride_;
  GuardedArray<float> values_, pair_sums_;
  GuardedArray<std::int32_t> fit_;
  GuardedArray<float> powers_;
  GuardedArray<kernels::PairedRow> paired_;
  GuardedArray<float> sums_;
  std::vector<std::int32_t> lens_;
};

// Root of the mean square of the errors of all rows.
double typical_error(Problem& problem, bool by_pairs) {
  problem.pool(0, problem.num_rows, by_pairs);
  double squares = 0;
  for (std::size_t row = 0; row < problem.num_rows; ++row) squares += problem.error(row).squares;
  return std::sqrt(squares / static_cast<double>(problem.num_rows * problem.num_columns));
}

}  // namespace

TEST_CASE(
    "value pairs: equals double for counts of rows, keys and columns around the tiles, nothing beyond is touched") {
  constexpr std::size_t kRows = 19;
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    const std::size_t lanes = kernels::softmax_tile_kernels(target.id()).sums_stride / 2;
    for (const std::size_t columns : {std::size_t{1}, lanes, lanes + 1, width - 1, width, 2 * width + 1}) {
      for (const std::size_t keys : {1u, 7u, 31u, 32u, 33u, 47u, 48u, 63u, 80u, 95u, 96u, 127u, 128u, 300u}) {
        Problem problem(target, kRows, keys, columns);
        for (const std::size_t count : {0u, 1u, 2u, 3u, 7u, 8u, 9u, 16u, 19u}) {
          const std::size_t first = kRows - count;
          problem.pool(first, count);
          double worst = 0;
          for (std::size_t row = first; row < kRows; ++row) worst = worse(worst, problem.error(row).largest);
          INFO(keys, " keys, ", columns, " columns, ", count, " rows");
          CHECK(worst <= 4e-7);
          for (std::size_t row = 0; row < first; ++row) {
            for (std::size_t n = 0; n < columns; ++n) REQUIRE(std::isnan(problem.sums(row)[n]));
          }
        }
      }
    }
  });
}

TEST_CASE("value pairs: a row is as exact as by the tile product, however peaked, whatever size and sign values have") {
  constexpr std::size_t kRows = 96;
  struct Kind {
    const char* name;
    Draw value;
  };
  const auto times = [](float factor) { return [factor](Random& random) { return factor * random.normal(); }; };
  const Kind kinds[] = {{"normal", draw_normal},
                        {"large", times(20)},
                        {"small", times(0.01f)},
                        {"positive", [](Random& random) { return random.uniform(0, 1); }},
                        {"nearly constant", [](Random& random) { return 3 + 0.01f * random.normal(); }},
                        {"left by a ReLU", [](Random& random) { return std::max(random.normal(), 0.0f); }}};
  for_each_target([&](const Target& target) {
    for (const Kind& kind : kinds) {
      for (const float deviation : {0.0f, 0.5f, 1.5f, 3.0f, 5.0f}) {  // of exponents of two
        Problem problem(target, kRows, 128, 64, times(deviation), kind.value);
        const double plain = typical_error(problem, false), pairs = typical_error(problem, true);
        std::size_t fit = 0;
        for (std::size_t row = 0; row < kRows; ++row) fit += problem.is_fit(row) ? 1 : 0;
        INFO(std::string(kind.name), ", deviation ", deviation, ": ", pairs, " by pairs, ", plain, " plain; ", fit,
             " rows fit");
        CHECK(pairs <= 2.5 * plain);  // 1.5 with FMA
        CHECK(fit >= kRows / 2);
        CHECK(pairs != plain);
      }
    }
  });
}

TEST_CASE("value pairs: rows and values that would lose by them have the bits of the tile product") {
  constexpr std::size_t kRows = 13, kKeys = 3 * kernels::kInnerBlock;
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    Problem problem(target, kRows, kKeys, 4 * width);
    for (std::size_t j = 0; j < kKeys; ++j) {
      problem.power(0, j) = 0;                        // no key at all
      problem.power(1, j) = j % 128 == 77 ? 8 : 0;    // one key of each block
      problem.power(2, j) *= j < 128 ? 1.0f : 1e-3f;  // far less than the first block
      problem.power(3, j) *= j < 256 ? 1.0f : 40.0f;  // far more
      problem.power(4, j) *= 1e30f;                   // squares overflow
    }
    problem.power(5, 200) = kNaN;
    problem.power(6, 300) = kInfinity;
    problem.len(7) = 127;  // less than the first block
    problem.len(8) = 383;  // less than the last one
    for (std::size_t j = 128; j < 256; ++j) {
      problem.value(j, 1) *= 8;      // a larger norm than the first block's, by much ...
      problem.value(j, width) *= 3;  // ... and by less
    }
    problem.value(300, width + 1) = 200;  // far larger than the others of its column
    for (std::size_t j = 128; j < 256; ++j) {
      problem.value(j, 2 * width) *= 0.1f;  // a smaller norm, by much ...
      problem.value(j, 3 * width) *= 0.4f;  // ... and by less
    }
    // One value that has the norm of its column, which is as large as others.
    for (std::size_t j = 256; j < 384; ++j) problem.value(j, 3 * width) = j == 300 ? 11.3f : 0.0f;
    problem.pool(0, kRows, false);
    const std::vector<float> plain = problem.all_sums();
    problem.pool(0, kRows);
    const std::vector<float> mixed = problem.all_sums();
    CHECK(problem.fit(0, 0) == 1);
    CHECK(problem.fit(0, 1) == 1);
    CHECK(problem.fit(1, 0) == 0);
    CHECK(problem.fit(1, 1) == 1);
    CHECK(problem.fit(2, 0) == 1);
    CHECK(problem.fit(2, 1) == 0);
    CHECK(problem.fit(1, 2) == 0);
    CHECK(problem.fit(1, 3) == 1);
    CHECK(problem.fit(2, 2) == 1);
    CHECK(problem.fit(2, 3) == 0);
    for (std::size_t row = 0; row < kRows; ++row) {
      INFO("row ", row);
      const bool goes_plain = row < 2 || row == 4 || row == 7;
      // Rows 5 and 6 are NaN and infinite from their block on.
      if (row != 5 && row != 6) CHECK(problem.same_sums(row, plain) == goes_plain);
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      INFO("row ", row, " alone");
      problem.pool(row, 1);
      CHECK(problem.same_sums(row, mixed));
    }
    problem.pool(2, 9);
    for (std::size_t row = 2; row < 11; ++row) CHECK(problem.same_sums(row, mixed));
  });
}

TEST_CASE("value pairs: more rows than are sorted at a time, of every length, come out as each alone") {
  constexpr std::size_t kRows = 150, kKeys = 2 * kernels::kInnerBlock + 44;
  for_each_target([&](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    for (const std::size_t columns : {std::size_t{1}, width + 1}) {
      Problem problem(target, kRows, kKeys, columns);
      for (std::size_t row = 0; row < kRows; ++row) {
        // Every third row by pairs, the others plainly, of lengths that fall and rise.
        const std::size_t most = row < 64 ? 100 : kKeys;  // those that are sorted first are short
        if (row % 3 != 0) problem.len(row) = static_cast<std::int32_t>((row * 89) % (most + 1));
      }
      problem.pool(0, kRows);
      const std::vector<float> together = problem.all_sums();
      std::size_t by_pairs = 0;
      for (std::size_t row = 0; row < kRows; ++row) {
        by_pairs += problem.is_fit(row) ? 1 : 0;
        INFO(columns, " columns, row ", row, " alone");
        problem.pool(row, 1);
        CHECK(problem.same_sums(row, together));
        CHECK(problem.error(row).largest <= 4e-7);
      }
      CHECK(by_pairs >= kRows / 3);
      CHECK(by_pairs < kRows / 2);
    }
  });
}

TEST_CASE("value pairs: which rows of a block go by pairs, and which not") {
  for_each_target([&](const Target& target) {
    Problem problem(target, 12, 128, 16);
    for (std::size_t j = 0; j < 128; ++j) {
      problem.power(0, j) = j == 5 ? 8.0f : 0.0f;
      problem.power(1, j) = j % 50 == 5 ? 8.0f : 0.0f;  // three keys alike
      problem.power(2, j) = 12.0f;
      problem.power(3, j) = 20.0f;
      problem.power(4, j) = 0.08f;
      problem.power(5, j) = 0.05f;
      problem.power(6, j) = kNaN;
    }
    problem.len(7) = 127;
    problem.pool(0, 12);
    for (const std::size_t row : {0u, 3u, 5u, 6u, 7u}) CHECK(!problem.is_fit(row));
    for (const std::size_t row : {1u, 2u, 4u, 8u, 9u, 10u, 11u}) CHECK(problem.is_fit(row));
    // Of one vector of columns, or of some, those that do not follow one another come out as each alone.
    const std::vector<float> all = problem.all_sums();
    for (const std::size_t row : {1u, 2u, 4u, 8u, 11u, 3u, 7u}) {
      problem.pool(row, 1);
      CHECK(problem.same_sums(row, all));
    }
  });
}

TEST_CASE("value pairs: rows that see no key of the first block are 0 among others that go by pairs") {
  for_each_target([&](const Target& target) {
    Problem problem(target, 20, 128, 16);
    for (std::size_t row = 4; row < 16; ++row) problem.len(row) = 0;  // more than go at a time
    problem.pool(0, 20);
    for (std::size_t row = 0; row < 20; ++row) {
      INFO("row ", row);
      const bool is_zero = std::all_of(problem.sums(row), problem.sums(row) + 16, [](float sum) { return sum == 0; });
      CHECK(is_zero == (problem.len(row) == 0));
      CHECK(problem.is_fit(row) == !is_zero);
    }
  });
}

TEST_CASE("value pairs: rows are prefetched at every step of rows, vectors and blocks, and change no bit") {
  constexpr std::size_t kRows = 17;
  for_each_target([](const Target& target) {
    const std::size_t lanes = kernels::softmax_tile_kernels(target.id()).sums_stride / 2;
    Problem problem(target, kRows, 2 * kernels::kInnerBlock, 2 * kernels::pack_kernels(target.id()).panel_width);
    problem.pool(0, kRows);
    const std::vector<float> expected = problem.all_sums();
    for (std::size_t row = 0; row < kRows; ++row) REQUIRE(problem.is_fit(row));
    const float row = 0;
    kernels::PrefetchRows ahead{.next = &row, .stride = -7, .num_rows = 1000, .size = 33};
    problem.ahead = &ahead;
    problem.pool(0, kRows);
    CHECK(problem.all_sums() == expected);
    const std::size_t steps = (kRows + problem.rows_per_step() - 1) / problem.rows_per_step();
    CHECK(ahead.num_rows == 1000 - 2 * 2 * steps * problem.num_columns / (2 * lanes));  // two blocks
  });
}

TEST_CASE("value pairs: a first block that is no measure leaves all rows to the tile product") {
  for_each_target([&](const Target& target) {
    for (const float factor : {0.0f, 1e-8f, 1e8f, kInfinity, kNaN}) {
      Problem problem(target, 4, 256, 30);
      for (std::size_t j = 0; j < 128; ++j) {
        for (std::size_t n = 0; n < 30; ++n) problem.value(j, n) *= factor;
      }
      problem.pool(0, 4, false);
      const std::vector<float> plain = problem.all_sums();
      problem.pool(0, 4);
      INFO(factor);
      CHECK(same_bits(problem.all_sums(), plain));
    }
  });
}

TEST_CASE("value pairs: powers are aimed at eight times the size of values, within reach of the softmax") {
  CHECK(kernels::power_exponent(1.0f) == 3);
  CHECK(kernels::power_exponent(0.25f) == 2);
  CHECK(kernels::power_exponent(1e10f) == 8);
  CHECK(kernels::power_exponent(1e-10f) == -8);
  CHECK(std::isnan(kernels::power_exponent(0.0f)));
}

}  // namespace attend::tests
