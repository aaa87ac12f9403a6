// C = A B in panels: against double, for every count of rows, and the same bits whichever rows are multiplied together.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/pack.h"
#include "engine/kernels/softmax_tile.h"
#include "engine/kernels/tile_product.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::size_t lanes_of(const Target& target) { return kernels::softmax_tile_kernels(target.id()).sums_stride / 2; }

// A (rows, inner), B (inner, columns) and its panels, which end at an unmapped page like A and C do.
class Product {
 public:
  Product(const Target& target, std::size_t num_rows, std::size_t num_columns, std::size_t inner, std::size_t a_gap = 0)
      : width_(kernels::pack_kernels(target.id()).panel_width),
        lanes_(lanes_of(target)),
        kernels_(kernels::tile_product_kernels(target.id())),
        num_rows_(num_rows),
        num_columns_(num_columns),
        inner_(inner),
        a_stride_(inner + a_gap),
        padded_columns_((num_columns + width_ - 1) / width_ * width_),
        a_(num_rows == 0 ? 0 : (num_rows - 1) * a_stride_ + inner),
        panels_(inner * padded_columns_),
        b_(inner * num_columns) {
    Random random(inner * 31 + num_columns);
    for (float& x : a_) x = kNaN;
    for (std::size_t m = 0; m < num_rows; ++m) {
      for (std::size_t k = 0; k < inner; ++k) a(m, k) = random.normal();
    }
    for (std::size_t k = 0; k < inner; ++k) {
      for (std::size_t n = 0; n < num_columns; ++n) set_b(k, n, random.normal());
    }
  }

  float& a(std::size_t m, std::size_t k) { return a_[m * a_stride_ + k]; }
  void set_b(std::size_t k, std::size_t n, float x) {
    b_[k * num_columns_ + n] = x;
    panels_[(n / width_ * inner_ + k) * width_ + n % width_] = x;
  }
  std::size_t c_size(std::size_t rows) const { return rows * padded_columns_; }
  std::size_t c_stride() const { return padded_columns_; }
  // Of a row of C: whole vectors.
  std::size_t written() const { return (num_columns_ + lanes_ - 1) / lanes_ * lanes_; }

  // Rows first ... first + rows - 1 of A into c, whose row 0 is that of A's row `first`.
  void multiply(std::size_t first, std::size_t rows, bool accumulate, float* c) const {
    kernels_.multiply(args(first, rows, accumulate, c));
  }
  kernels::TileProductArgs args(std::size_t first, std::size_t rows, bool accumulate, float* c) const {
    return {.a = a_.data() + first * a_stride_,
            .a_stride = static_cast<std::ptrdiff_t>(a_stride_),
            .b = panels_.data(),
            .b_panel_stride = inner_ * width_,
            .b_row_stride = static_cast<std::ptrdiff_t>(width_),
            .c = c,
            .c_stride = static_cast<std::ptrdiff_t>(padded_columns_),
            .num_rows = rows,
            .num_columns = num_columns_,
            .inner = inner_,
            .accumulate = accumulate};
  }

  // The largest |c - (start + A B)| / (|start| + |A| |B|) over all elements: errors in units of what was summed.
  double relative_error(const float* c, double start) const {
    double worst = 0;
    for (std::size_t m = 0; m < num_rows_; ++m) {
      for (std::size_t n = 0; n < num_columns_; ++n) {
        double sum = start, magnitude = std::abs(start);
        for (std::size_t k = 0; k < inner_; ++k) {
          const double term = static_cast<double>(a_[m * a_stride_ + k]) * b_[k * num_columns_ + n];
          sum += term;
          magnitude += std::abs(term);
        }
        const double error = std::abs(c[m * padded_columns_ + n] - sum);
        worst = std::isnan(error) ? 1 : std::max(worst, magnitude > 0 ? error / magnitude : error);
      }
    }
    return worst;
  }

 private:
  std::size_t width_, lanes_;
  kernels::TileProductKernels kernels_;
  std::size_t num_rows_, num_columns_, inner_, a_stride_, padded_columns_;
  GuardedArray<float> a_, panels_;
  std::vector<float> b_;
};

std::vector<std::size_t> columns_around_panel(const Target& target) {
  const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
  const std::size_t lanes = lanes_of(target);
  std::vector<std::size_t> columns = {1, width - 1, width, width + 1, 2 * width + 1};
  for (std::size_t vectors = 1; vectors * lanes < width; ++vectors) {
    columns.push_back(vectors * lanes);
    columns.push_back(width + vectors * lanes + 1);
  }
  return columns;
}

constexpr std::size_t kInners[] = {0, 1, 2, 3, 64, 127, 128, 129, 257, 1000};

}  // namespace

TEST_CASE("tile product: equals double for 1 to 13 rows, columns around the panel, inner around the block") {
  for_each_target([](const Target& target) {
    for (const std::size_t columns : columns_around_panel(target)) {
      for (const std::size_t inner : kInners) {
        for (std::size_t rows = 1; rows <= 13; rows += inner > 128 ? 3 : 1) {
          Product product(target, rows, columns, inner, rows % 3);
          GuardedArray<float> c(product.c_size(rows));
          for (const bool accumulate : {false, true}) {
            std::fill(c.begin(), c.end(), accumulate ? 2.5f : kNaN);
            product.multiply(0, rows, accumulate, c.data());
            INFO(rows, " x ", inner, " x ", columns, ", accumulate ", accumulate);
            // Half an ulp (6e-8) for each of the roundings that meet: they cancel like sqrt of a block's length. The
            // worst of all columns is 3.1e-7.
            CHECK(product.relative_error(c.data(), accumulate ? 2.5 : 0.0) <= 4e-7);
          }
        }
      }
    }
  });
}

TEST_CASE("tile product: no inner dimension gives zeros, or leaves C as it was when accumulating") {
  for_each_target([](const Target& target) {
    Product product(target, 7, 5, 0);
    GuardedArray<float> c(product.c_size(7));
    std::fill(c.begin(), c.end(), kNaN);
    product.multiply(0, 7, false, c.data());
    for (std::size_t i = 0; i < c.size(); ++i) {
      CHECK((i % product.c_stride() < product.written() ? c[i] == 0.0f : std::isnan(c[i])));
    }
    std::fill(c.begin(), c.end(), 1.25f);
    product.multiply(0, 7, true, c.data());
    CHECK(std::all_of(c.begin(), c.end(), [](float x) { return x == 1.25f; }));
  });
}

TEST_CASE("tile product: no rows, nothing written") {
  for_each_target([](const Target& target) {
    Product product(target, 0, 5, 3);
    GuardedArray<float> c(0);
    product.multiply(0, 0, false, c.data());
  });
}

TEST_CASE("tile product: a row's bits do not depend on the other rows of the call, nor a column's on other columns") {
  for_each_target([](const Target& target) {
    constexpr std::size_t kRows = 13;
    for (const std::size_t inner : {1u, 64u, 129u, 1000u}) {
      for (const std::size_t columns : columns_around_panel(target)) {
        Product product(target, kRows, columns, inner, 1);
        const std::size_t stride = product.c_stride();
        GuardedArray<float> alone(product.c_size(kRows)), block(product.c_size(kRows));
        std::fill(alone.begin(), alone.end(), kNaN);
        for (std::size_t m = 0; m < kRows; ++m) product.multiply(m, 1, false, alone.data() + m * stride);
        std::size_t beyond = 0;  // whole vectors nothing is written
        for (std::size_t i = 0; i < alone.size(); ++i) {
          if (i % stride >= product.written()) beyond += std::isnan(alone[i]) ? 0u : 1u;
        }
        CHECK(beyond == 0);
        bool same = true;
        for (std::size_t first = 0; first < kRows; ++first) {
          for (std::size_t rows = 1; first + rows <= kRows; ++rows) {
            std::fill(block.begin(), block.end(), kNaN);
            product.multiply(first, rows, false, block.data());
            same = same && same_bits(block.data(), alone.data() + first * stride, rows * stride);
          }
        }
        INFO(inner, " inner, ", columns, " columns");
        CHECK(same);

        // Row 4 stays what it is beside rows of NaN; column 0 beside a last column of NaN.
        for (std::size_t m = 0; m < kRows; ++m) {
          if (m != 4) std::fill_n(&product.a(m, 0), inner, kNaN);
        }
        product.multiply(0, kRows, false, block.data());
        CHECK(same_bits(block.data() + 4 * stride, alone.data() + 4 * stride, columns));
        for (std::size_t k = 0; k < inner && columns > 1; ++k) product.set_b(k, columns - 1, kNaN);
        product.multiply(0, kRows, false, block.data());
        if (columns > 1) CHECK(same_bits(block.data() + 4 * stride, alone.data() + 4 * stride, columns - 1));
      }
    }
  });
}

TEST_CASE("tile product: accumulating is one addition to the product of a block") {
  for_each_target([](const Target& target) {
    for (const std::size_t inner : {1u, 64u, 128u}) {
      Product product(target, 8, 9, inner);
      GuardedArray<float> plain(product.c_size(8)), added(product.c_size(8));
      product.multiply(0, 8, false, plain.data());
      std::fill(added.begin(), added.end(), 0.7f);
      product.multiply(0, 8, true, added.data());
      std::size_t wrong = 0;
      // What is not written is as it was mapped: 0.
      for (std::size_t i = 0; i < plain.size(); ++i) wrong += added[i] == 0.7f + plain[i] ? 0 : 1;
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("tile product: sums of thousands of terms of one sign keep the accuracy of the contract") {
  // Attention weights over many keys, all values positive: nothing cancels, a plain f32 sum drifts. Row 0: varied
  // weights; row 1: equal ones, whose roundings agree. Contract 6 leaves 2e-7 * 4 of the largest value for weights and
  // pooling together. Beyond 2^16 keys this no longer holds for one call (9.4e-7 at 2^18): the pooling then keeps
  // totals of its own.
  for_each_target([](const Target& target) {
    for (const std::size_t inner : {1024u, 4096u, 16384u, 65536u}) {
      Product product(target, 2, 2, inner);
      Random random(inner);
      for (std::size_t k = 0; k < inner; ++k) {
        product.a(0, k) = random.uniform(0.5f, 1.5f) / static_cast<float>(inner);
        product.a(1, k) = 1.0f / static_cast<float>(inner);
        product.set_b(k, 0, random.uniform(0.9f, 1.0f));
        product.set_b(k, 1, 1.0f / 3.0f + 0.3f * random.uniform(0.0f, 1.0f));
      }
      GuardedArray<float> c(product.c_size(2));
      product.multiply(0, 2, false, c.data());
      INFO(inner, " terms");
      CHECK(product.relative_error(c.data(), 0) <= 8e-7);
    }
  });
}

TEST_CASE("tile product: rows of A at negative and zero strides") {
  for_each_target([](const Target& target) {
    constexpr std::size_t kRows = 7, kInner = 33;
    Product product(target, kRows, 5, kInner);
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    GuardedArray<float> panels(kInner * width), expected(kRows * width), c(kRows * width);
    Random random(5);
    for (float& x : panels) x = random.normal();
    kernels::TileProductArgs args{.a = &product.a(0, 0),
                                  .a_stride = kInner,
                                  .b = panels.data(),
                                  .b_panel_stride = kInner * width,
                                  .b_row_stride = static_cast<std::ptrdiff_t>(width),
                                  .c = expected.data(),
                                  .c_stride = static_cast<std::ptrdiff_t>(width),
                                  .num_rows = kRows,
                                  .num_columns = width,
                                  .inner = kInner,
                                  .accumulate = false};
    const auto multiply = kernels::tile_product_kernels(target.id()).multiply;
    multiply(args);
    args.a = &product.a(kRows - 1, 0);
    args.a_stride = -static_cast<std::ptrdiff_t>(kInner);
    args.c = c.data();
    multiply(args);
    for (std::size_t m = 0; m < kRows; ++m) {
      CHECK(same_bits(c.data() + m * width, expected.data() + (kRows - 1 - m) * width, width));
    }
    args.a_stride = 0;
    multiply(args);
    for (std::size_t m = 0; m < kRows; ++m) {
      CHECK(same_bits(c.data() + m * width, expected.data() + (kRows - 1) * width, width));
    }
  });
}

TEST_CASE(
    "tile product: with lens, vectors that no row of a step sees are left alone, and the others keep their bits") {
  for_each_target([](const Target& target) {
    constexpr std::size_t kRows = 14, kInner = 130;
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width, lanes = lanes_of(target);
    const std::size_t columns = 3 * width - 1;
    Product product(target, kRows, columns, kInner);
    const std::size_t stride = product.c_stride();
    GuardedArray<float> all(product.c_size(kRows)), some(product.c_size(kRows));
    product.multiply(0, kRows, false, all.data());
    // The first step of 6 sees up to `longest` columns, the next none, the last all.
    for (std::size_t longest = 1; longest <= columns; ++longest) {
      std::int32_t lens[kRows] = {1, 0, static_cast<std::int32_t>(longest), 0, 1, 0};
      lens[12] = static_cast<std::int32_t>(columns);
      std::fill(some.begin(), some.end(), -77.0f);
      kernels::TileProductArgs args = product.args(0, kRows, false, some.data());
      args.lens = lens;
      kernels::tile_product_kernels(target.id()).multiply(args);
      const std::size_t seen[] = {(longest + lanes - 1) / lanes * lanes, 0, product.written()};
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < some.size(); ++i) {
        const bool computed = i % stride < seen[i / stride / kernels::kRowsPerStep];
        wrong += some[i] != (computed ? all[i] : -77.0f) ? 1u : 0u;
      }
      INFO(longest, " columns");
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("tile product: with inner_lens, rows that end in zeros keep their bits, and nothing beyond is read") {
  for_each_target([](const Target& target) {
    constexpr std::size_t kRows = 13;
    for (const std::size_t inner : {1u, 64u, 128u, 300u}) {
      Product product(target, kRows, 5, inner);
      Random random(inner);
      std::int32_t lens[kRows];
      for (std::size_t m = 0; m < kRows; ++m) {
        const float length = random.uniform(0.0f, 1.0f) * static_cast<float>(inner);
        lens[m] = m / kernels::kRowsPerStep == 1 ? 0 : static_cast<std::int32_t>(length);
      }
      const auto end_in_zeros = [&](Product& p) {
        for (std::size_t m = 0; m < kRows; ++m) {
          for (std::size_t k = static_cast<std::size_t>(lens[m]); k < inner; ++k) p.a(m, k) = 0.0f;
        }
      };
      end_in_zeros(product);
      for (const bool accumulate : {false, true}) {
        GuardedArray<float> expected(product.c_size(kRows)), c(product.c_size(kRows));
        std::fill(expected.begin(), expected.end(), 0.7f);
        product.multiply(0, kRows, accumulate, expected.data());
        // Beyond the longest row of a step B may hold anything.
        for (std::size_t first = 0; first < kRows; first += kernels::kRowsPerStep) {
          const std::size_t rows = std::min(kernels::kRowsPerStep, kRows - first);
          const auto longest = static_cast<std::size_t>(*std::max_element(lens + first, lens + first + rows));
          Product spoilt(target, kRows, 5, inner);
          end_in_zeros(spoilt);
          for (std::size_t k = longest; k < inner; ++k) spoilt.set_b(k, 3, kNaN);
          std::fill(c.begin(), c.end(), 0.7f);
          kernels::TileProductArgs args = spoilt.args(first, rows, accumulate, c.data());
          args.inner_lens = lens + first;
          kernels::tile_product_kernels(target.id()).multiply(args);
          INFO(inner, " inner, rows from ", first, ", accumulate ", accumulate);
          CHECK(same_bits(c.data(), expected.data() + first * product.c_stride(), rows * product.c_stride()));
        }
        std::fill(c.begin(), c.end(), 0.7f);
        kernels::TileProductArgs args = product.args(0, kRows, accumulate, c.data());
        args.inner_lens = lens;
        kernels::tile_product_kernels(target.id()).multiply(args);
        CHECK(same_bits(c.data(), expected.data(), c.size()));
      }
    }
  });
}

TEST_CASE("tile product: rows are prefetched at every step of rows, panel and block, and change no bit") {
  for_each_target([](const Target& target) {
    const std::size_t width = kernels::pack_kernels(target.id()).panel_width;
    // Whole panels may go by two, three rows a step: as often.
    for (const auto& sizes :
         {std::pair(2 * kernels::kRowsPerStep + 1, width + 1), std::pair(2 * kernels::kRowsPerStep, 2 * width)}) {
      const std::size_t rows = sizes.first, columns = sizes.second;
      CAPTURE(columns);
      const Product p(target, rows, columns, kernels::kInnerBlock + 1);
      GuardedArray<float> expected(p.c_size(rows)), c(p.c_size(rows));
      p.multiply(0, rows, false, expected.data());
      kernels::PrefetchRows ahead{.next = expected.data(), .stride = -7, .num_rows = 1000, .size = 33};
      kernels::TileProductArgs args = p.args(0, rows, false, c.data());
      args.ahead = &ahead;
      kernels::tile_product_kernels(target.id()).multiply(args);
      for (std::size_t m = 0; m < rows; ++m) {
        const std::size_t row = m * p.c_stride();
        CHECK(same_bits(c.data() + row, expected.data() + row, p.written()));
      }
      const std::size_t steps = (rows + kernels::kRowsPerStep - 1) / kernels::kRowsPerStep * 2 * 2;  // panels, blocks
      CHECK(ahead.num_rows == 1000 - steps * kernels::kPrefetchRowsPerStep);
    }
  });
}

TEST_CASE("tile product: the largest of each row by lanes, padding included") {
  for_each_target([](const Target& target) {
    const std::size_t lanes = lanes_of(target);
    for (const std::size_t columns : columns_around_panel(target)) {
      for (const std::size_t inner : {1u, 64u, 129u, 300u}) {
        for (std::size_t rows = 1; rows <= 13; ++rows) {
          Product product(target, rows, columns, inner);
          // All scores negative, so that the padding's zeros win where there is any.
          for (std::size_t m = 0; m < rows; ++m) product.a(m, 0) -= columns % 2 == 0 ? 1e3f : 0.0f;
          GuardedArray<float> c(product.c_size(rows)), max(rows * lanes);
          std::fill(max.begin(), max.end(), kNaN);
          kernels::TileProductArgs args = product.args(0, rows, false, c.data());
          args.max_lanes = max.data();
          kernels::tile_product_kernels(target.id()).multiply(args);
          std::size_t wrong = 0;
          for (std::size_t m = 0; m < rows; ++m) {
            for (std::size_t lane = 0; lane < lanes; ++lane) {
              float largest = -std::numeric_limits<float>::infinity();
              for (std::size_t n = lane; n < product.written(); n += lanes) {
                largest = std::max(largest, c[m * product.c_stride() + n]);
              }
              wrong += max[m * lanes + lane] != largest ? 1u : 0u;
            }
          }
          INFO(rows, " x ", inner, " x ", columns);
          CHECK(wrong == 0);
        }
      }
    }
  });
}

}  // namespace attend::tests
