// y = W x + b: against double, and to the last bit the same wherever a row stands.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "engine/base/checked.h"
#include "engine/base/cpus.h"
#include "engine/kernels/linear_rows.h"
#include "engine/matmul/linear.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/layouts.h"
#include "tests/support/random.h"
#include "tests/support/tiles.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

using matmul::Implementation;
using matmul::Linear;

struct MapSize {
  std::int64_t out, in;
};
// One element, odd sizes, sizes around vectors and blocks, the projections, the largest that oneDNN gets and a
// little more, large weights of odd sizes.
constexpr MapSize kSizes[] = {{1, 1},     {3, 5},     {17, 1},    {1, 33},    {16, 16},
                              {64, 64},   {65, 63},   {100, 20},  {256, 192}, {256, 256},
                              {129, 257}, {384, 512}, {384, 513}, {768, 768}, {513, 1000}};

// The kernels of the instruction set under test.
const kernels::LinearRowsKernels& rows_kernels() {
  static const kernels::LinearRowsKernels kKernels = kernels::linear_rows_kernels(targets_under_test().front().id());
  return kKernels;
}

// Each product that this build and machine have for W: our own, plain, by pairs of terms and by bfloat16 parts, and
// oneDNN unless all it offers is its reference.
std::vector<Linear> all_linears(TensorView<const float> W, TensorView<const float> bias) {
  std::vector<Linear> maps;
  maps.emplace_back(W, bias, "W", Implementation::kLinearRows);
  maps.emplace_back(W, bias, "W", Implementation::kLinearPairs);
  maps.emplace_back(W, bias, "W", Implementation::kLinearParts);
  const std::string refused = error_message([&] { maps.emplace_back(W, bias, "W", Implementation::kOneDnn); });
  if (refused != "") CHECK((refused.find("reference") != refused.npos || refused.find("without") != refused.npos));
  return maps;
}

// How rows lie: one after another, each on its own in a place of its own, or the last first.
enum class Lie { kDense, kApart, kReversed };

// Rows between unmapped pages, as many as multiply may read or write and not one more.
class Call {
 public:
  Call(const Linear& map, std::size_t num_rows, Lie lie = Lie::kDense)
      : num_rows_(num_rows),
        in_(map.in_size()),
        out_(map.out_size()),
        gap_(lie == Lie::kApart ? 3 : 0),
        source_(memory_of(in_)),
        destination_(memory_of(out_)),
        scratch_((map.scratch_bytes() + 63) / 64 * 64) {
    std::fill(source_.begin(), source_.end(), kNaN);
    std::fill(destination_.begin(), destination_.end(), kNaN);
    for (std::size_t r = 0; r < num_rows; ++r) {
      const std::size_t at = lie == Lie::kReversed ? num_rows - 1 - r : r;
      rows_.push_back(source_.data() + at * (in_ + gap_));
      results_.push_back(destination_.data() + at * (out_ + gap_));
    }
  }
  float* row(std::size_t r) { return source_.data() + (rows_[r] - source_.data()); }
  const float* result(std::size_t r) const { return results_[r]; }
  // Rows `first` and on of a dense matrix.
  void fill_rows(const std::vector<float>& x, std::size_t first = 0) {
    for (std::size_t r = 0; r < num_rows_; ++r) std::copy_n(x.data() + (first + r) * in_, in_, row(r));
  }
  bool multiply(const Linear& map) {
    return map.multiply(rows_kernels(), rows_.data(), results_.data(), num_rows_, scratch_.data());
  }
  // Whether the results are those rows of a dense matrix, and nothing between them was written.
  bool equals(const std::vector<float>& expected, std::size_t first = 0) const {
    for (std::size_t r = 0; r < num_rows_; ++r) {
      if (!same_bits(result(r), expected.data() + (first + r) * out_, out_)) return false;
    }
    if (gap_ == 0) return true;
    for (std::size_t r = 0; r + 1 < num_rows_; ++r) {
      if (!std::all_of(result(r) + out_, result(r) + out_ + gap_, [](float x) { return std::isnan(x); })) return false;
    }
    return true;
  }

 private:
  std::size_t memory_of(std::size_t size) const { return num_rows_ == 0 ? 0 : num_rows_ * (size + gap_) - gap_; }

  std::size_t num_rows_, in_, out_, gap_;
  GuardedArray<float> source_, destination_;
  GuardedArray<std::byte> scratch_;
  std::vector<const float*> rows_;
  std::vector<float*> results_;
};

// Row r's result on its own, row after row.
std::vector<float> row_by_row(const Linear& map, const std::vector<float>& rows) {
  std::vector<float> results;
  for (std::size_t row = 0; row < rows.size() / map.in_size(); ++row) {
    Call call(map, 1);
    call.fill_rows(rows, row);
    CHECK(call.multiply(map));
    results.insert(results.end(), call.result(0), call.result(0) + map.out_size());
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

// By parts where tiles are in memory: all rows of any but small weights would take a minute, sanitized of any.
bool takes_long(const Linear& map) {
  const bool in_memory = map.goes_by_parts(rows_kernels()) && !rows_kernels().has_tiles;
  return in_memory && (kIsSanitized || map.in_size() * map.out_size() > 5000);
}

}  // namespace

TEST_CASE("linear: a broadcast matrix larger than any memory is refused at once, not read") {
  const float one = 1.0f;
  const auto build = [&](std::int64_t rows) {
    Linear(TensorView<const float>(&one, {rows, std::int64_t{1} << 20}, {0, 0}), {}, "W");
  };
  CHECK_THROWS_AS(build(std::int64_t{1} << 40), std::bad_alloc);
  CHECK_THROWS_AS(build(std::int64_t{1} << 42), TooLarge);  // a size that is no number
}

TEST_CASE("linear: equals double, with and without bias") {
  for (const MapSize& size : kSizes) {
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

TEST_CASE("linear: runs on an optimised implementation, chosen by the size of the weights, and says which and why") {
  for (const MapSize& size : kSizes) {
    Random random(4);
    const Tensor W = random.normal({size.out, size.in});
    const std::vector<Linear> maps = all_linears(W.view(), {});
    CHECK(maps[0].implementation() == "own kernel, panels of 16 columns, any rows");
    const bool fit = size.in >= 64;
    CHECK(maps[1].implementation() == maps[0].implementation() + (fit ? ", by pairs of terms" : ""));
    CHECK(maps[2].implementation() == maps[0].implementation() + (size.in >= 32 ? ", by bfloat16 parts" : ""));
    const bool gains_by_parts = size.in >= 64 && size.out >= 64 && size.in * size.out >= 8192;
    const std::string chosen = Linear(W.view(), {}, "W").implementation();
    INFO(size.out, " x ", size.in, ": ", chosen);
    CHECK(chosen.find("ref:") == std::string::npos);
    const bool large = size.out * size.in * 4 > 3 << 18;
    if (gains_by_parts && kernels::linear_rows_kernels(Target::best().id()).has_tiles) {
      CHECK(chosen == maps[0].implementation() + ", on AVX3 by bfloat16 parts (this CPU multiplies tiles)");
      continue;
    }
    CHECK(chosen.find("bfloat16") == chosen.npos);
    if (fit && this_cpu().adds_beside_products()) {
      CHECK(chosen.starts_with("own kernel"));
      CHECK(chosen.find("on AVX3 by pairs of terms (this CPU adds beside multiplying)") != chosen.npos);
      continue;
    }
    CHECK(chosen.find("pairs") == chosen.npos);
#if defined(__x86_64__)
    if (!this_cpu().has_avx512) {
      CHECK(chosen.starts_with(maps[0].implementation()));
      continue;
    }
#endif
    CHECK(chosen.starts_with(maps.size() > 3 && !large ? "oneDNN " : "own kernel"));
#if defined(ATTEND_WITH_ONEDNN) && defined(__x86_64__)
    REQUIRE(maps.size() == 4);
    CHECK(maps[3].implementation().starts_with("oneDNN "));
    CHECK(maps[3].implementation().find("ref:") == std::string::npos);
    CHECK(chosen.find(large ? "in parts" : "stay in L2") != std::string::npos);
#endif
  }
}

TEST_CASE("linear: weights in which few elements hold the norm, of unlike norms or not finite go by no pairs") {
  Random random(11);
  const Tensor W = random.normal({40, 96});
  const auto goes_by_pairs = [](const Tensor& weights) {
    return Linear(weights.view(), {}, "W", Implementation::kLinearPairs).implementation().find("pairs") !=
           std::string::npos;
  };
  CHECK(goes_by_pairs(W));
  const auto with = [&](const std::function<float(std::size_t o, std::size_t k, float w)>& change) {
    Tensor changed = W;
    for (std::size_t i = 0; i < changed.data.size(); ++i) changed.data[i] = change(i / 96, i % 96, changed.data[i]);
    return goes_by_pairs(changed);
  };
  CHECK(with([](std::size_t o, std::size_t, float w) { return o == 3 ? 8 * w : w; }));
  CHECK(!with([](std::size_t o, std::size_t, float w) { return o == 3 ? 40 * w : w; }));
  CHECK(!with([](std::size_t o, std::size_t, float w) { return o == 3 ? 0 : w; }));
  CHECK(!with([](std::size_t o, std::size_t k, float w) { return o == 3 ? (k == 5 ? 9.0f : 0.0f) : w; }));
  CHECK(!with([](std::size_t o, std::size_t k, float) { return o == k ? 1.0f : 0.0f; }));
  CHECK(!with([](std::size_t o, std::size_t k, float w) { return o == 3 && k == 4 ? kNaN : w; }));
  CHECK(!with([](std::size_t o, std::size_t k, float w) {
    return o == 3 && k == 4 ? std::numeric_limits<float>::infinity() : w;
  }));
  CHECK(!with([](std::size_t, std::size_t, float w) { return w * 1e-9f; }));
  CHECK(!with([](std::size_t, std::size_t, float w) { return w * 1e9f; }));
  CHECK(!goes_by_pairs(random.normal({5, 63})));
  CHECK(!goes_by_pairs(random.normal({5, 2049})));
}

TEST_CASE("linear: weights with rows that are huge, tiny or not finite, or of few terms, go by no parts") {
  Random random(13);
  const Tensor W = random.normal({40, 96});
  const auto goes_by_parts = [](const Tensor& weights) {
    const Linear map(weights.view(), {}, "W", Implementation::kLinearParts);
    CHECK(map.goes_by_parts(rows_kernels()) == (map.implementation().find("bfloat16") != std::string::npos));
    return map.goes_by_parts(rows_kernels());
  };
  CHECK(goes_by_parts(W));
  const auto with = [&](std::size_t row, std::size_t column, float number, float others) {
    Tensor changed = W;
    for (std::size_t k = 0; k < 96; ++k) changed.data[row * 96 + k] = k == column ? number : others;
    return goes_by_parts(changed);
  };
  CHECK(with(3, 4, 0.0f, 0.0f));
  CHECK(with(3, 4, -0x1p-40f, 0.0f));
  CHECK(!with(3, 4, 0x1p-41f, 0.0f));
  CHECK(with(39, 95, -0x1p40f, 1.0f));
  CHECK(!with(39, 95, 0x1p41f, 1.0f));
  CHECK(!with(39, 95, kNaN, 1.0f));
  CHECK(!with(0, 0, -std::numeric_limits<float>::infinity(), 1.0f));
  CHECK(!goes_by_parts(random.normal({64, 31})));
  CHECK(goes_by_parts(random.normal({1, 32})));
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

TEST_CASE("linear: a row's bits depend on that row alone, for every count from 1 to 64, many above, and every place") {
  // One call's rows, around the counts that primitives are made for, and more rows than one call of oneDNN takes.
  constexpr std::size_t kMany = Linear::kMaxRows + 70;
  std::vector<std::size_t> all_counts;
  for (std::size_t count = 1; count <= Linear::kRowBlock + 1; ++count) all_counts.push_back(count);
  all_counts.insert(all_counts.end(), {100, 127, 128, 129, 176, 191, 192, 193, 240, 255, 256, 257, 320, kMany});
  // Where the weights are large, fewer: a sanitized scalar build takes minutes for all.
  const std::vector<std::size_t> few_counts = {1, 2, 3, 5, 6, 7, 13, 16, 48, 63, 64, 65, 129, 256, 257, kMany};
  for (const MapSize& size : kSizes) {
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

TEST_CASE("linear: W and bias of any strides, copied while building") {
  check_any_strides(30);
  check_any_strides(96);  // enough for pairs of terms
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

#ifndef ATTEND_WITH_ONEDNN
TEST_CASE("linear: a build without oneDNN says so when asked for it") {
  const std::vector<float> W = {1};
  const TensorView<const float> view(W.data(), {1, 1});
  CHECK(missing_parts(error_message([&] { Linear(view, {}, "W_q", Implementation::kOneDnn); }),
                      {"W_q", "oneDNN", "ATTEND_WITH_ONEDNN"}) == "");
}
#endif

// What can fail, an implementation that is only "ref" and an error of oneDNN itself, no sizes bring about with
// oneDNN 2.6.3. Zero sizes, by which oneDNN would divide, are refused by the layers: parameters_test.cc.

}  // namespace attend::tests
