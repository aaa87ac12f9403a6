// Rows of B used where they lie: the bits of packed panels, at any stride, and nothing read beyond the last row.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "engine/kernels/pack.h"
#include "engine/kernels/tile_product.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Product {
  kernels::TileProductKernels kernels;
  std::size_t rows, columns, inner, width;
  GuardedArray<float> a, panels, c;

  Product(const Target& target, std::size_t num_rows, std::size_t num_panels, std::size_t num_inner)
      : kernels(kernels::tile_product_kernels(target.id())),
        rows(num_rows),
        columns(num_panels * kernels::pack_kernels(target.id()).panel_width),
        inner(num_inner),
        width(kernels::pack_kernels(target.id()).panel_width),
        a(rows * inner),
        panels(inner * columns),
        c(rows * columns) {
    Random random(inner * 31 + columns);
    for (float& x : a) x = random.normal();
    for (float& x : panels) x = random.normal();
  }
  float b(std::size_t k, std::size_t n) const { return panels[(n / width * inner + k) * width + n % width]; }

  std::vector<float> multiply(const float* from, std::size_t panel_stride, std::ptrdiff_t row_stride, bool accumulate) {
    std::fill(c.begin(), c.end(), accumulate ? 2.5f : kNaN);
    kernels.multiply({.a = a.data(),
                      .a_stride = static_cast<std::ptrdiff_t>(inner),
                      .b = from,
                      .b_panel_stride = panel_stride,
                      .b_row_stride = row_stride,
                      .c = c.data(),
                      .c_stride = static_cast<std::ptrdiff_t>(columns),
                      .num_rows = rows,
                      .num_columns = columns,
                      .inner = inner,
                      .accumulate = accumulate});
    return {c.begin(), c.end()};
  }
};

}  // namespace

TEST_CASE("tile product: rows of B where they lie, at any stride and alignment, equal packed panels bit by bit") {
  for_each_target([](const Target& target) {
    for (const std::size_t num_panels : {1u, 2u, 3u}) {
      for (const std::size_t inner : {0u, 1u, 5u, 128u, 129u, 300u}) {
        for (const std::size_t rows : {1u, 6u, 7u, 13u}) {
          Product product(target, rows, num_panels, inner);
          for (const bool accumulate : {false, true}) {
            const std::vector<float> expected = product.multiply(
                product.panels.data(), inner * product.width, static_cast<std::ptrdiff_t>(product.width), accumulate);
            for (const std::size_t gap : {std::size_t{0}, std::size_t{1}, std::size_t{3}, product.width}) {
              for (const bool reversed : {false, true}) {
                // The last row in memory ends at an unmapped page, and the first begins after one.
                const std::size_t stride = product.columns + gap;
                GuardedArray<float> in_place(inner == 0 ? 0 : (inner - 1) * stride + product.columns,
                                             inner % 2 == 0 ? Guard::kBegin : Guard::kEnd);
                std::fill(in_place.begin(), in_place.end(), kNaN);
                for (std::size_t k = 0; k < inner; ++k) {
                  for (std::size_t n = 0; n < product.columns; ++n) {
                    in_place[(reversed ? inner - 1 - k : k) * stride + n] = product.b(k, n);
                  }
                }
                const auto step = static_cast<std::ptrdiff_t>(stride);
                const float* first = in_place.data() + (reversed && inner > 0 ? (inner - 1) * stride : 0);
                INFO(rows, " x ", inner, " x ", product.columns, ", gap ", gap, ", reversed ", reversed);
                CHECK(same_bits(expected, product.multiply(first, product.width, reversed ? -step : step, accumulate)));
              }
            }
          }
        }
      }
    }
  });
}

TEST_CASE("tile product: one row of B for all, at stride 0") {
  for_each_target([](const Target& target) {
    Product product(target, 7, 2, 200);
    GuardedArray<float> row(product.columns);
    for (std::size_t n = 0; n < product.columns; ++n) row[n] = product.b(3, n);
    for (std::size_t k = 0; k < product.inner; ++k) {
      for (std::size_t n = 0; n < product.columns; ++n) {
        product.panels[(n / product.width * product.inner + k) * product.width + n % product.width] = row[n];
      }
    }
    const std::vector<float> expected = product.multiply(product.panels.data(), product.inner * product.width,
                                                         static_cast<std::ptrdiff_t>(product.width), false);
    CHECK(same_bits(expected, product.multiply(row.data(), product.width, 0, false)));
  });
}

}  // namespace attend::tests
