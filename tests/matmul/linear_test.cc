// y = W x + b: against double, from weights and bias of any strides, however often it is prepared.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/matmul/linear.h"
#include "tests/matmul/linear_cases.h"
#include "tests/support/compare.h"
#include "tests/support/layouts.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

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

using GetThreads = int (*)();
using SetThreads = void (*)(int);

void check_any_strides(std::int64_t in) {
  Random random(7);
  const Tensor W = random.normal({20, in}), bias = random.normal({20}), x = random.normal({1, in});
  for (const Linear& dense : all_linears(W.view(), bias.view())) {
    const auto says = [&dense](const char* word) { return dense.implementation().find(word) != std::string::npos; };
    const Implementation implementation = says("oneDNN")     ? Implementation::kOneDnn
                                          : says("bfloat16") ? Implementation::kLinearParts
                                          : says("pairs")    ? Implementation::kLinearPairs
                                                             : Implementation::kLinearRows;
    CAPTURE(dense.implementation());
    const std::vector<float> expected = row_by_row(dense, x.data);
    for (const Layout layout : kAllLayouts) {
      Laid laid = lay_out(W.view(), layout);
      const Linear map(laid.view(), bias.view(), "W", implementation);
      std::fill(laid.memory.begin(), laid.memory.end(), kNaN);
      CHECK(same_bits(row_by_row(map, x.data), expected));
    }
    const auto columns = static_cast<std::size_t>(in);
    std::vector<float> transposed(20 * columns), spaced_bias(60, kNaN);
    for (std::size_t o = 0; o < 20; ++o) {
      for (std::size_t i = 0; i < columns; ++i) transposed[i * 20 + o] = W.data[o * columns + i];
      spaced_bias[(19 - o) * 3] = bias.data[o];
    }
    const Linear map(TensorView<const float>(transposed.data(), {20, in}, {1, 20}),
                     TensorView<const float>(spaced_bias.data() + 57, {20}, {-3}), "W", implementation);
    CHECK(same_bits(row_by_row(map, x.data), expected));

    // Broadcast: every row of W is the same, so is every output.
    const Linear broadcast(TensorView<const float>(W.data.data(), {20, in}, {0, 1}), {}, "W", implementation);
    const std::vector<float> y = row_by_row(broadcast, x.data);
    const TensorView<const float> first_row(W.data.data(), {1, in});
    for (const float each : y) CHECK(relative_error(first_row, {}, x.data.data(), &each) <= 4e-7);
  }
}

}  // namespace

TEST_CASE("linear: equals double, with and without bias") {
  for (const MapSize& size : kMapSizes) {
    for (const bool with_bias : {false, true}) {
      Random random(3);
      const Tensor W = random.normal({size.out, size.in}), x = random.normal({13, size.in});
      const Tensor bias = with_bias ? random.normal({size.out}) : Tensor{};
      for (const Linear& map : all_linears(W.view(), view_of(bias))) {
        CHECK(map.in_size() == static_cast<std::size_t>(size.in));
        CHECK(map.out_size() == static_cast<std::size_t>(size.out));
        Call call(map, 13);
        call.fill_rows(x.data);
        REQUIRE(call.multiply(map));
        double worst = 0;
        for (std::size_t row = 0; row < 13; ++row) {
          worst = std::max(worst, relative_error(W.view(), bias, call.row(row), call.result(row)));
        }
        INFO(size.out, " x ", size.in, ", bias ", with_bias, ": ", map.implementation());
        CHECK(worst <= 4e-7);
      }
    }
  }
}

TEST_CASE("linear: by pairs of terms, rows of W of norms 12 times apart are all within their bound") {
  Random random(12);
  Tensor W = random.normal({40, 96});
  const Tensor x = random.normal({20, 96});
  for (std::size_t i = 0; i < W.data.size(); ++i) W.data[i] *= i / 96 % 2 == 0 ? 3.0f : 0.25f;
  const Linear map(W.view(), {}, "W", Implementation::kLinearPairs);
  REQUIRE(map.implementation().find("pairs") != std::string::npos);
  const std::vector<float> y = row_by_row(map, x.data);
  // Of 8 n 2^-24 |w| |x| (layers.h) a 32nd: roundings of 96 terms do not all go one way.
  for (std::size_t row = 0; row < 20; ++row) {
    for (std::size_t o = 0; o < 40; ++o) {
      double sum = 0, of_w = 0, of_x = 0;
      for (std::size_t k = 0; k < 96; ++k) {
        const double w = W.data[o * 96 + k], v = x.data[row * 96 + k];
        sum += w * v;
        of_w += w * w;
        of_x += v * v;
      }
      CHECK(std::abs(y[row * 40 + o] - sum) <= 8 * 96 * 0x1p-24 / 32 * std::sqrt(of_w * of_x));
    }
  }
}

TEST_CASE("linear: W and bias of any strides, copied while building") {
  check_any_strides(30);
  check_any_strides(96);  // enough for pairs of terms
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

}  // namespace attend::tests
