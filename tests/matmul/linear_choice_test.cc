// Which implementation multiplies by W: by its size, its numbers and the CPU, and which weights are refused.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/base/checked.h"
#include "engine/base/cpus.h"
#include "engine/kernels/linear_rows.h"
#include "engine/matmul/linear.h"
#include "tests/matmul/linear_cases.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("linear: a broadcast matrix larger than any memory is refused at once, not read") {
  const float one = 1.0f;
  const auto build = [&](std::int64_t rows) {
    Linear(TensorView<const float>(&one, {rows, std::int64_t{1} << 20}, {0, 0}), {}, "W");
  };
  CHECK_THROWS_AS(build(std::int64_t{1} << 40), std::bad_alloc);
  CHECK_THROWS_AS(build(std::int64_t{1} << 42), TooLarge);  // a size that is no number
}

TEST_CASE("linear: runs on an optimised implementation, chosen by the size of the weights, and says which and why") {
  for (const MapSize& size : kMapSizes) {
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
      const std::string targets = this_cpu().is_zen5() ? "AVX3" : "AVX2 and AVX3";
      CHECK(chosen.find(", on " + targets + " by pairs of terms (this CPU adds beside multiplying)") != chosen.npos);
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

TEST_CASE("linear: reads are prefetched by pairs whose weights stay in L2, and twice as many rows go together then") {
  Random random(12);
  const auto map = [&](std::int64_t out, std::int64_t in, Implementation asked = Implementation::kLinearPairs) {
    return Linear(random.normal({out, in}).view(), {}, "W", asked);
  };
  // 320 KiB; a panel more, although its weights are fewer; few, by plain sums.
  const Linear most = map(320, 256), padded = map(325, 250), plain = map(256, 256, Implementation::kLinearRows);
  for_each_target([&](const Target& target) {
    const kernels::LinearRowsKernels kernels = kernels::linear_rows_kernels(target.id());
    CHECK(most.prefetches_reads(kernels) == kernels.pairs_by_slices);
    CHECK(most.few_rows(kernels) == (kernels.pairs_by_slices ? 2 : 1) * Linear::kRowBlock);
    for (const Linear* other : {&padded, &plain}) {
      CHECK(!other->prefetches_reads(kernels));
      CHECK(other->few_rows(kernels) == Linear::kRowBlock);
    }
  });
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
