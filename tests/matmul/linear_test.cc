// y = W x + b: against double, and to the last bit the same wherever a row stands.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "engine/matmul/linear.h"
#include "tests/support/compare.h"
#include "tests/support/guard_page.h"
#include "tests/support/layouts.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using matmul::Linear;

struct MapSize {
  std::int64_t out, in;
};
// One element, odd sizes, sizes around vectors and blocks, the projections, large weights of odd sizes.
constexpr MapSize kSizes[] = {{1, 1},    {3, 5},     {17, 1},    {1, 33},    {16, 16},   {64, 64},   {65, 63},
                              {100, 20}, {256, 192}, {256, 256}, {129, 257}, {768, 768}, {513, 1000}};

// Rows between unmapped pages, as many as multiply may read or write and not one more.
struct Call {
  GuardedArray<float> source, destination;
  GuardedArray<std::byte> scratch;

  Call(const Linear& map, std::size_t num_rows)
      : source(map.padded_rows(num_rows) * map.in_size()),
        destination(map.padded_rows(num_rows) * map.out_size()),
        scratch((map.scratch_bytes() + 63) / 64 * 64) {
    std::fill(source.begin(), source.end(), std::numeric_limits<float>::quiet_NaN());
    std::fill(destination.begin(), destination.end(), std::numeric_limits<float>::quiet_NaN());
  }
  bool multiply(const Linear& map, std::size_t num_rows) {
    return map.multiply(source.data(), destination.data(), num_rows, scratch.data());
  }
};

// Row r's result on its own, row after row.
std::vector<float> row_by_row(const Linear& map, const std::vector<float>& rows) {
  std::vector<float> results;
  for (std::size_t at = 0; at < rows.size(); at += map.in_size()) {
    Call call(map, 1);
    std::copy_n(rows.data() + at, map.in_size(), call.source.data());
    CHECK(call.multiply(map, 1));
    results.insert(results.end(), call.destination.data(), call.destination.data() + map.out_size());
  }
  return results;
}

// max over the elements of |y - truth| / (sum |W x| + |b|): error in units of what was summed.
double relative_error(const TensorView<const float>& W, const Tensor& bias, const float* x, const float* y) {
  double worst = 0;
  for (std::int64_t o = 0; o < W.size(0); ++o) {
    double sum = bias.data.empty() ? 0.0 : static_cast<double>(bias.data[static_cast<std::size_t>(o)]);
    double magnitude = std::abs(sum);
    for (std::int64_t i = 0; i < W.size(1); ++i) {
      const double term = static_cast<double>(*W.at(o, i)) * x[i];
      sum += term;
      magnitude += std::abs(term);
    }
    const double error = std::abs(y[o] - sum);
    worst = std::isnan(error) ? 1 : std::max(worst, magnitude > 0 ? error / magnitude : error);
  }
  return worst;
}

TensorView<const float> view_of(const Tensor& tensor) {
  return tensor.data.empty() ? TensorView<const float>() : tensor.view();
}

using GetThreads = int (*)();
using SetThreads = void (*)(int);

}  // namespace

TEST_CASE("linear: equals double, with and without bias") {
  for (const MapSize& size : kSizes) {
    const std::int64_t out = size.out, in = size.in;
    for (const bool with_bias : {false, true}) {
      Random random(3);
      const Tensor W = random.normal({out, in}), x = random.normal({13, in});
      const Tensor bias = with_bias ? random.normal({out}) : Tensor{};
      const Linear map(W.view(), view_of(bias), "W");
      CHECK(map.in_size() == static_cast<std::size_t>(in));
      CHECK(map.out_size() == static_cast<std::size_t>(out));
      Call call(map, 13);
      std::copy(x.data.begin(), x.data.end(), call.source.begin());
      REQUIRE(call.multiply(map, 13));
      double worst = 0;
      for (std::size_t row = 0; row < 13; ++row) {
        worst = std::max(worst, relative_error(W.view(), bias, x.data.data() + row * map.in_size(),
                                               call.destination.data() + row * map.out_size()));
      }
      INFO(out, " x ", in, ", bias ", with_bias, ": ", map.implementation());
      CHECK(worst <= 4e-7);
    }
  }
}

TEST_CASE("linear: runs on an optimised implementation and says which") {
  for (const MapSize& size : kSizes) {
    const std::int64_t out = size.out, in = size.in;
    Random random(4);
    const Tensor W = random.normal({out, in});
    const std::string implementation = Linear(W.view(), {}, "W").implementation();
    INFO(out, " x ", in, ": ", implementation);
    CHECK(implementation.find("ref") == std::string::npos);
    CHECK(implementation.find("oneDNN ") == 0);
    CHECK(implementation.find(" rows") != std::string::npos);
  }
}

TEST_CASE("linear: a row's bits depend on that row alone, for every count from 1 to 64, many above, and every place") {
  // One call's rows, around the counts that primitives are made for, and more rows than one call of oneDNN takes.
  constexpr std::size_t kMany = Linear::kMostRows + 70;
  std::vector<std::size_t> counts;
  for (std::size_t count = 1; count <= Linear::kRowBlock + 1; ++count) counts.push_back(count);
  counts.insert(counts.end(), {100, 127, 128, 129, 176, 191, 192, 193, 240, 255, 256, 257, 320, kMany});
  for (const MapSize& size : kSizes) {
    const std::int64_t out = size.out, in = size.in;
    for (const bool with_bias : {false, true}) {
      Random random(5);
      const Tensor W = random.normal({out, in}), x = random.normal({static_cast<std::int64_t>(kMany), in});
      const Tensor bias = with_bias ? random.normal({out}) : Tensor{};
      const Linear map(W.view(), view_of(bias), "W");
      const std::vector<float> expected = row_by_row(map, x.data);
      for (const std::size_t count : counts) {
        // Not from row 0, so that a row stands in another place for each count; the padding's rows are NaN.
        const std::size_t first = count % 2 == 0 ? kMany - count : 0;
        Call call(map, count);
        std::copy_n(x.data.data() + first * map.in_size(), count * map.in_size(), call.source.data());
        REQUIRE(call.multiply(map, count));
        INFO(out, " x ", in, ", ", count, " rows, ", map.implementation());
        CHECK(same_bits(call.destination.data(), expected.data() + first * map.out_size(), count * map.out_size()));
      }
    }
  }
}

TEST_CASE("linear: padded_rows holds what was asked for, adds little, never passes the end of a block of 64") {
  for (const MapSize& size : kSizes) {
    const std::int64_t out = size.out, in = size.in;
    Random random(6);
    const Tensor W = random.normal({out, in});
    const Linear map(W.view(), {}, "W");
    CHECK(map.padded_rows(0) == 0);
    // One row, or four where the row alone would have other bits (products of AVX2 with a vector).
    const std::size_t smallest = map.padded_rows(1);
    CHECK((smallest == 1 || smallest == 4));
    for (std::size_t count = 1; count <= 2 * Linear::kMostRows; ++count) {
      INFO(count, " rows");
      CHECK(map.padded_rows(count) >= count);
      CHECK(map.padded_rows(count) <= (count + Linear::kRowBlock - 1) / Linear::kRowBlock * Linear::kRowBlock);
      // At most a quarter of what is computed, unless it is for want of a smaller count.
      CHECK((map.padded_rows(count) * 3 <= count * 4 || map.padded_rows(count) < count + smallest));
    }
    for (std::size_t blocks = 1; blocks <= 8; ++blocks) {
      CHECK(map.padded_rows(blocks * Linear::kRowBlock) == blocks * Linear::kRowBlock);
    }
  }
}

TEST_CASE("linear: a count that a primitive was made for is not padded") {
  Random random(12);
  const Tensor W = random.normal({256, 256});
  const Linear map(W.view(), {}, "W");
  // implementation() ends in "256/128/64/48/16/4/1 rows".
  const std::string text = map.implementation();
  std::size_t number = 0;
  for (const char c : text.substr(text.rfind(' ', text.rfind(" rows") - 1) + 1)) {
    if (c >= '0' && c <= '9') {
      number = 10 * number + static_cast<std::size_t>(c - '0');
    } else if (number != 0) {
      INFO(text, ": ", number, " rows");
      CHECK(map.padded_rows(number) == number);
      number = 0;
    }
  }
}

TEST_CASE("linear: prepared for more calls than it has places for, it still multiplies") {
  Random random(14);
  const Tensor W = random.normal({8, 8}), x = random.normal({3, 8});
  const Linear map(W.view(), {}, "W");
  const std::vector<float> expected = row_by_row(map, x.data);
  for (const int calls : {0, 1, 100}) {
    map.prepare_for(calls);
    CHECK(same_bits(row_by_row(map, x.data), expected));
  }
}

TEST_CASE("linear: W and bias of any strides, copied while building") {
  Random random(7);
  const Tensor W = random.normal({20, 30}), bias = random.normal({20}), x = random.normal({1, 30});
  const std::vector<float> expected = row_by_row(Linear(W.view(), bias.view(), "W"), x.data);
  for (const Layout layout : kAllLayouts) {
    Laid laid = lay_out(W.view(), layout);
    const Linear map(laid.view(), bias.view(), "W");
    std::fill(laid.memory.begin(), laid.memory.end(), std::numeric_limits<float>::quiet_NaN());
    CHECK(same_bits(row_by_row(map, x.data), expected));
  }
  std::vector<float> transposed(600), spaced_bias(60, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t o = 0; o < 20; ++o) {
    for (std::size_t i = 0; i < 30; ++i) transposed[i * 20 + o] = W.data[o * 30 + i];
    spaced_bias[(19 - o) * 3] = bias.data[o];
  }
  const Linear map(TensorView<const float>(transposed.data(), {20, 30}, {1, 20}),
                   TensorView<const float>(spaced_bias.data() + 57, {20}, {-3}), "W");
  CHECK(same_bits(row_by_row(map, x.data), expected));

  // Broadcast: every row of W is the same, so is every output.
  const Linear broadcast(TensorView<const float>(W.data.data(), {20, 30}, {0, 1}), {}, "W");
  const std::vector<float> y = row_by_row(broadcast, x.data);
  const TensorView<const float> first_row(W.data.data(), {1, 30});
  for (const float each : y) CHECK(relative_error(first_row, {}, x.data.data(), &each) <= 4e-7);
}

TEST_CASE("linear: special values stay in their row") {
  Random random(8);
  const Tensor W = random.normal({33, 40}), x = random.normal({256, 40});
  const Linear map(W.view(), {}, "W");
  const std::vector<float> expected = row_by_row(map, x.data);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::size_t count : {2u, 7u, 48u, 64u, 128u, 200u, 256u}) {
      Call call(map, count);
      std::copy_n(x.data.data(), count * 40, call.source.data());
      call.source[1 * 40 + 3] = bad;
      REQUIRE(call.multiply(map, count));
      for (std::size_t row = 0; row < count; ++row) {
        const float* y = call.destination.data() + row * 33;
        if (row == 1) {
          CHECK(std::none_of(y, y + 33, [](float each) { return std::isfinite(each); }));
        } else {
          CHECK(same_bits(y, expected.data() + row * 33, 33));
        }
      }
    }
  }
}

TEST_CASE("linear: multiplies of four threads at a time give the same bits") {
  Random random(9);
  const Tensor W = random.normal({256, 192}), bias = random.normal({256}), x = random.normal({256, 192});
  const Linear map(W.view(), bias.view(), "W");
  const std::vector<float> expected = row_by_row(map, x.data);
  std::vector<int> wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t id = 0; id < 4; ++id) {
      threads.emplace_back([&, id] {
        for (std::size_t repeat = 0; repeat < 60; ++repeat) {
          const std::size_t count = 1 + (repeat * 39 + id * 13) % 256, first = (repeat * 5) % (257 - count);
          Call call(map, count);
          std::copy_n(x.data.data() + first * 192, count * 192, call.source.data());
          const bool same = call.multiply(map, count) &&
                            same_bits(call.destination.data(), expected.data() + first * 256, count * 256);
          wrong[id] += same ? 0 : 1;
        }
      });
    }
  }
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("linear: the caller's number of OpenMP threads is left alone") {
  // Looked up by name: oneDNN may have been built on another runtime, and then there is nothing to leave alone.
  const auto get = reinterpret_cast<GetThreads>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  const auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (get == nullptr || set == nullptr) {
    MESSAGE("no OpenMP runtime in this process");
    return;
  }
  const int before = get();
  for (const int threads : {1, 3, 5}) {
    set(threads);
    Random random(10);
    const Tensor W = random.normal({40, 30}), x = random.normal({5, 30});
    const Linear map(W.view(), {}, "W");
    CHECK(get() == threads);
    CHECK(row_by_row(map, x.data).size() == 200);
    CHECK(get() == threads);
    // Nor does the number at build time reach the result.
    set(1);
    const Linear again(W.view(), {}, "W");
    CHECK(same_bits(row_by_row(map, x.data), row_by_row(again, x.data)));
  }
  set(before);
}

// What can fail, an implementation that is only "ref" and an error of oneDNN itself, no sizes bring about with
// oneDNN 2.6.3. Zero sizes, by which oneDNN would divide, are refused by the layers: parameters_test.cc.

}  // namespace attend::tests
