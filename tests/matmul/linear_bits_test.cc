// y = W x + b: a row's bits depend on the row alone, wherever it stands, whatever is beside it and whoever else
// multiplies.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "engine/matmul/linear.h"
#include "tests/matmul/linear_cases.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("linear: a row's bits depend on that row alone, for every count from 1 to 64, many above, and every place") {
  // One call's rows, around the counts that primitives are made for, and more rows than one call of oneDNN takes.
  constexpr std::size_t kMany = Linear::kMaxRows + 70;
  std::vector<std::size_t> all_counts;
  for (std::size_t count = 1; count <= Linear::kRowBlock + 1; ++count) all_counts.push_back(count);
  all_counts.insert(all_counts.end(), {100, 127, 128, 129, 176, 191, 192, 193, 240, 255, 256, 257, 320, kMany});
  // Where the weights are large, fewer: a sanitized scalar build takes minutes for all.
  const std::vector<std::size_t> few_counts = {1, 2, 3, 5, 6, 7, 13, 16, 48, 63, 64, 65, 129, 256, 257, kMany};
  for (const MapSize& size : kMapSizes) {
    const std::vector<std::size_t>& counts = size.out * size.in > 100 * 1000 ? few_counts : all_counts;
    for (const bool with_bias : {false, true}) {
      Random random(5);
      const Tensor W = random.normal({size.out, size.in});
      const Tensor x = random.normal({static_cast<std::int64_t>(kMany), size.in});
      const Tensor bias = with_bias ? random.normal({size.out}) : Tensor{};
      for (const Linear& map : all_linears(W.view(), view_of(bias))) {
        if (takes_long(map)) continue;  // tests/kernels/linear_parts_test.cc
        const std::vector<float> expected = row_by_row(map, x.data);
        for (const std::size_t count : counts) {
          // Not from row 0, so that a row stands in another place for each count.
          const std::size_t first = count % 2 == 0 ? kMany - count : 0;
          Call call(map, count, count % 3 == 0 ? Lie::kApart : count % 3 == 1 ? Lie::kDense : Lie::kReversed);
          call.fill_rows(x.data, first);
          REQUIRE(call.multiply(map));
          INFO(size.out, " x ", size.in, ", ", count, " rows, ", map.implementation());
          CHECK(call.equals(expected, first));
        }
      }
    }
  }
}

TEST_CASE("linear: where sums in another order round alike but for one row of many, calls of one row are like others") {
  // oneDNN's jitted gemm for AVX2 sums the last column or two of these in another order where a call has one row.
  constexpr std::size_t kRows = 64;
  for (const MapSize& size : {MapSize{33, 3}, MapSize{17, 3}, MapSize{2049, 16}, MapSize{4097, 8}}) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      Random random(100 + seed);
      const Tensor W = random.normal({size.out, size.in}), x = random.normal({kRows, size.in});
      for (const Linear& map : all_linears(W.view(), {})) {
        Call call(map, kRows);
        call.fill_rows(x.data);
        REQUIRE(call.multiply(map));
        INFO(size.out, " x ", size.in, ", seed ", seed, ", ", map.implementation());
        CHECK(call.equals(row_by_row(map, x.data)));
      }
    }
  }
}

TEST_CASE("linear: rows partly dense, rows that come twice") {
  Random random(6);
  for (const MapSize& size : {MapSize{40, 24}, MapSize{768, 768}}) {
    const Tensor W = random.normal({size.out, size.in}), x = random.normal({300, size.in});
    const auto in = static_cast<std::size_t>(size.in), out = static_cast<std::size_t>(size.out);
    for (const Linear& map : all_linears(W.view(), {})) {
      if (takes_long(map)) continue;
      const std::vector<float> expected = row_by_row(map, x.data);
      // Entries of 130 rows: dense for two blocks of 64, then two rows, then elsewhere; results with a hole at 200.
      std::vector<float> y(301 * out);
      std::vector<std::byte> scratch(map.scratch_bytes() + 64);
      std::vector<const float*> rows;
      std::vector<float*> results;
      std::vector<std::size_t> number;
      for (std::size_t r = 0; r < 300; ++r) {
        number.push_back(r < 130 ? r : r < 140 ? 7 : 429 - r - 130);  // as they lie, one row ten times, the last first
        rows.push_back(x.data.data() + number[r] * in);
        results.push_back(y.data() + (r + (r >= 200 ? 1 : 0)) * out);
      }
      auto* aligned = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
      REQUIRE(map.multiply(rows_kernels(), rows.data(), results.data(), 300, aligned));
      INFO(map.implementation());
      for (std::size_t r = 0; r < 300; ++r) CHECK(same_bits(results[r], expected.data() + number[r] * out, out));
    }
  }
}

TEST_CASE("linear: some columns have the bits that they have among all, and nothing else is written") {
  for (const MapSize& size : {MapSize{16, 5}, MapSize{75, 64}, MapSize{200, 130}}) {
    Random random(7);
    const Tensor W = random.normal({size.out, size.in}), bias = random.normal({size.out}),
                 x = random.normal({30, size.in});
    const auto out = static_cast<std::size_t>(size.out);
    for (const bool with_bias : {false, true}) {
      for (const Linear& map : all_linears(W.view(), with_bias ? bias.view() : TensorView<const float>{})) {
        if (!map.splits_columns()) continue;
        const std::vector<float> expected = row_by_row(map, x.data);
        for (std::size_t first = 0; first < out; first += 16) {
          for (const std::size_t count : {out - first, std::min<std::size_t>(32, out - first), std::size_t{1}}) {
            for (const std::size_t rows : {1u, 9u, 30u}) {
              Call call(map, rows, Lie::kApart);
              call.fill_rows(x.data);
              REQUIRE(call.multiply_columns(map, {first, count}));
              INFO(size.out, " x ", size.in, ", columns ", first, " and ", count - 1, " more, ", map.implementation());
              std::size_t wrong = 0;
              for (std::size_t r = 0; r < rows; ++r) {
                for (std::size_t o = 0; o < out; ++o) {
                  const float y = call.result(r)[o];
                  const bool is_one = o >= first && o < first + count;
                  wrong += (is_one ? same_bits(&y, &expected[r * out + o], 1) : std::isnan(y)) ? 0 : 1;
                }
              }
              CHECK(wrong == 0);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("linear: special values stay in their row") {
  Random random(8);
  const Tensor W = random.normal({33, 40}), x = random.normal({256, 40});
  for (const Linear& map : all_linears(W.view(), {})) {
    const std::vector<float> expected = row_by_row(map, x.data);
    for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
      for (const std::size_t count : {2u, 7u, 48u, 64u, 128u, 200u, 256u}) {
        Call call(map, count);
        call.fill_rows(x.data);
        call.row(1)[3] = bad;
        REQUIRE(call.multiply(map));
        for (std::size_t row = 0; row < count; ++row) {
          const float* y = call.result(row);
          if (row == 1) {
            CHECK(std::none_of(y, y + 33, [](float each) { return std::isfinite(each); }));
          } else {
            CHECK(same_bits(y, expected.data() + row * 33, 33));
          }
        }
      }
    }
  }
}

TEST_CASE("linear: multiplies of four threads at a time give the same bits") {
  Random random(9);
  const Tensor W = random.normal({256, 192}), bias = random.normal({256}), x = random.normal({256, 192});
  for (const Linear& map : all_linears(W.view(), bias.view())) {
    if (takes_long(map)) continue;
    const std::vector<float> expected = row_by_row(map, x.data);
    std::vector<int> wrong(4, 0);
    {
      std::vector<std::jthread> threads;
      for (std::size_t id = 0; id < 4; ++id) {
        threads.emplace_back([&, id] {
          for (std::size_t repeat = 0; repeat < 60; ++repeat) {
            const std::size_t count = 1 + (repeat * 39 + id * 13) % 256, first = (repeat * 5) % (257 - count);
            Call call(map, count);
            call.fill_rows(x.data, first);
            wrong[id] += call.multiply(map) && call.equals(expected, first) ? 0 : 1;
          }
        });
      }
    }
    CHECK(wrong == std::vector<int>(4, 0));
  }
}

}  // namespace attend::tests
