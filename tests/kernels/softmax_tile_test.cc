// The online softmax on every target: tiles put together against the softmax of the whole row in double.
#include "engine/kernels/softmax_tile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/aligned_allocator.h>

#include "engine/kernels/pack.h"
#include "tests/kernels/softmax_tile_cases.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using kernels::SoftmaxTileArgs;
using kernels::SoftmaxTileKernels;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kColumns = 64;  // of o: a multiple of the lanes of every target of today

struct Row {
  std::string name;
  std::vector<float> scores;
};

// What is left of one row after all its tiles.
struct Outcome {
  float max = -kInf;
  double sum = 0.0;
  std::vector<float> p;       // as each tile left it
  std::vector<float> output;  // kColumns
};

// Runs a row through tiles of tile_size keys, pooling values v[j][k] = (-1)^k value(j). o is kept in double here, and
// the kernel given ones to scale, so that the errors seen are those of p, c, l and the division: the engine's o += p v
// has its own.
template <class Value>
Outcome run_row(const SoftmaxTileKernels& kernels, const std::vector<float>& scores, std::size_t tile_size, float scale,
                Value&& value, const float* power_exponent = nullptr) {
  const std::size_t stride = (tile_size + kColumns - 1) / kColumns * kColumns;
  const auto tile = hwy::AllocateAligned<float>(stride);
  const auto o = hwy::AllocateAligned<float>(kColumns);
  const Sums sums(kernels, 1);
  double pooled = 0.0;
  Outcome outcome;
  for (std::size_t first = 0; first < scores.size(); first += tile_size) {
    const std::size_t count = std::min(tile_size, scores.size() - first);
    std::fill(tile.get(), tile.get() + stride, kNaN);
    std::copy_n(scores.begin() + static_cast<std::ptrdiff_t>(first), count, tile.get());
    std::fill(o.get(), o.get() + kColumns, 1.0f);
    const std::int32_t len = static_cast<std::int32_t>(count);
    kernels.step({.scores = tile.get(),
                  .scores_stride = static_cast<std::ptrdiff_t>(stride),
                  .num_rows = 1,
                  .num_columns = tile_size,
                  .lens = &len,
                  .scale = scale,
                  .power_exponents = power_exponent,
                  .row_max = &outcome.max,
                  .row_sums = sums.data.get(),
                  .accumulators = o.get(),
                  .accumulators_stride = kColumns,
                  .accumulator_columns = kColumns});
    for (std::size_t k = 1; k < kColumns; ++k) CHECK(o[k] == o[0]);
    pooled *= o[0];
    for (std::size_t j = 0; j < count; ++j) pooled += static_cast<double>(tile[j]) * value(first + j);
    outcome.p.insert(outcome.p.end(), tile.get(), tile.get() + count);
  }
  outcome.sum = sums.totals()[0];
  for (std::size_t k = 0; k < kColumns; ++k) o[k] = static_cast<float>(k % 2 == 0 ? pooled : -pooled);
  outcome.output.resize(kColumns);
  kernels.finish_rows({.accumulators = o.get(),
                       .accumulators_stride = kColumns,
                       .row_sum = &outcome.sum,
                       .output = outcome.output.data(),
                       .output_stride = 0,
                       .num_rows = 1,
                       .num_columns = kColumns});
  return outcome;
}

std::vector<Row> adversarial_rows() {
  constexpr std::size_t kKeys = 65536;
  Random random(1);
  std::vector<Row> rows;
  const auto add = [&](std::string name, auto&& score) {
    Row row{std::move(name), std::vector<float>(kKeys)};
    for (std::size_t j = 0; j < kKeys; ++j) row.scores[j] = score(j);
    rows.push_back(std::move(row));
  };
  add("normal", [&](std::size_t) { return random.normal(); });
  add("all equal", [](std::size_t) { return 0.3f; });
  add("equal after a larger one", [](std::size_t j) { return j == 0 ? 0.30f : 0.10f; });
  // Tiles of equal sums, 512 * 0.985: added in float they would be rounded the same way 128 times (1.9e-6 in all).
  add("equal, 0.0152 below the first", [](std::size_t j) { return j == 0 ? 0.0152f : 0.0f; });
  add("maximum creeps up by 0.001 a tile", [](std::size_t j) { return static_cast<float>(j / 512) * 1e-3f; });
  add("maximum creeps up by 0.1 a tile", [](std::size_t j) { return static_cast<float>(j / 512) * 0.1f; });
  add("maximum jumps by 12.6 a tile", [](std::size_t j) { return static_cast<float>(j / 512) * 12.6f; });
  add("ramp down", [](std::size_t j) { return static_cast<float>(j) * -1e-3f; });
  add("largest last, by 7.9", [](std::size_t j) { return j == kKeys - 1 ? 7.9f : 0.0f; });
  add("largest last, by 11", [](std::size_t j) { return j == kKeys - 1 ? 11.0f : 0.0f; });
  add("largest last, by 100", [](std::size_t j) { return j == kKeys - 1 ? 100.0f : 0.0f; });
  add("around 1000", [&](std::size_t) { return 1000.0f + random.normal(); });
  add("around -3e6", [&](std::size_t) { return -3e6f + random.normal(); });
  add("around 1e8", [&](std::size_t) { return random.uniform(0.99e8f, 1.01e8f); });
  add("spread over thousands", [&](std::size_t) { return random.uniform(-3000.0f, 3000.0f); });
  add("1e30", [&](std::size_t) { return random.uniform(-1e30f, 1e30f); });
  add("-inf for three tiles", [&](std::size_t j) { return j < 1536 ? -kInf : random.normal(); });
  return rows;
}

TEST_CASE("softmax_tile: 65536 keys in tiles of 512 and 128, adversarial rows") {
  const std::vector<Row> rows = adversarial_rows();
  const auto value = [](std::size_t j) { return j % 3 == 0 ? 1.0 : 0.25; };
  for_each_target([&](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    double worst = 0.0, worst_sum = 0.0;
    std::string worst_row, worst_sum_row;
    for (const Row& row : rows) {
      for (const Scale& scale : kScales) {
        double max = -kInf, second = -kInf, largest = 0.0, sum = 0.0, pooled = 0.0;
        for (const float s : row.scores) {
          second = std::max(second, std::min<double>(max, s));
          max = std::max<double>(max, s);
          if (s != -kInf) largest = std::max<double>(largest, std::abs(s) * scale.truth * kLn2);
        }
        for (std::size_t j = 0; j < row.scores.size(); ++j) {
          const double p = std::exp2((row.scores[j] - max) * scale.truth);
          sum += p;
          pooled += p * value(j);
        }
        const double bound = 2e-7 * (4.0 + largest);
        // Outputs are 1 at the most: a bound above that allows anything, even where one score is above all others
        // whatever their rounding.
        const bool has_winner = (max - second) * scale.truth * kLn2 > 2.0 * bound + 40.0;
        const double output_bound = bound >= 1.0 && has_winner ? 1e-6 : bound;
        constexpr float kExponents[] = {kNaN, 8, -8};
        for (std::size_t run = 0; run < 4; ++run) {
          const std::size_t tile_size = run == 0 ? 512 : 128;
          const float exponent = kExponents[run == 0 ? 0 : run - 1];
          const Outcome outcome = run_row(kernels, row.scores, tile_size, scale.given, value, &exponent);
          INFO(row.name, ", scale ", scale.given, ", tiles of ", tile_size, ", powers of ", exponent);
          CHECK(outcome.max == std::round(outcome.max));
          CHECK(std::isfinite(outcome.sum));
          CHECK(outcome.sum > 0.0);
          // Weights of scores beyond a million are wrong by more than 1 for any float arithmetic.
          const double truth = sum * std::exp2(max * scale.truth - outcome.max);
          const double sum_error = bound < 1.0 ? std::abs(outcome.sum - truth) / truth / bound : 0.0;
          CHECK(sum_error <= 1.0);
          if (bound < 1.0) {
            CHECK(max * scale.truth <= outcome.max + 12.6);
            CHECK(max * scale.truth >= outcome.max - 12.6);
          }
          double error = 0.0;
          for (std::size_t k = 0; k < kColumns; ++k) {
            error = worse(error, std::abs((k % 2 == 0 ? 1 : -1) * outcome.output[k] - pooled / sum) / output_bound);
          }
          CHECK(error <= 1.0);
          if (sum_error > worst_sum) worst_sum = sum_error, worst_sum_row = row.name;
          if (error > worst) worst = error, worst_row = row.name;
        }
      }
    }
    MESSAGE(target.name(), ": in units of 2e-7 (4 + max|score|): sum ", worst_sum, " (", worst_sum_row, "), output ",
            worst, " (", worst_row, ")");
  });
}

TEST_CASE("softmax_tile: m is chosen so that the largest power of a row's first tile is about what is asked for") {
  for_each_target([](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    Random random(3);
    const auto one = [](std::size_t) { return 1.0; };
    for (const float around : {0.0f, -3.0f, 7.0f, 400.0f, -90000.0f}) {
      std::vector<float> scores(128);
      for (float& score : scores) score = around + random.normal();
      for (const Scale& scale : kScales) {
        for (const float exponent : {-8.0f, -3.0f, 0.0f, 3.0f, 8.0f}) {
          const Outcome outcome = run_row(kernels, scores, scores.size(), scale.given, one, &exponent);
          const float largest = *std::max_element(outcome.p.begin(), outcome.p.end());
          INFO("around ", around, ", ", exponent);
          CHECK(largest >= std::exp2(exponent - 1.51f));
          CHECK(largest <= std::exp2(exponent + 2.51f));
          if (outcome.max != 0) CHECK(largest <= std::exp2(exponent + 0.51f));
        }
        // Any size: the same bits as where nothing is said.
        const Outcome any = run_row(kernels, scores, scores.size(), scale.given, one, &kNaN);
        const Outcome plain = run_row(kernels, scores, scores.size(), scale.given, one);
        CHECK(any.max == plain.max);
        CHECK(any.p == plain.p);
      }
    }
    // Beyond what is exact in m, as if nothing were asked for.
    const float three = 3;
    CHECK(run_row(kernels, {3e30f, 1e30f}, 2, 1.0f, one, &three).max ==
          run_row(kernels, {3e30f, 1e30f}, 2, 1.0f, one).max);
  });
}

TEST_CASE("softmax_tile: p is 2^(scale s - m), 0 beyond each row's length; rows of any length side by side") {
  for_each_target([](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    Random random(2);
    for (const std::size_t columns : {1u, 2u, 3u, 15u, 16u, 17u, 63u, 64u, 65u, 127u, 128u, 200u, 300u}) {
      for (const Scale& scale : kScales) {
        const std::size_t stride = (columns + kColumns - 1) / kColumns * kColumns;
        const std::size_t rows = columns + 1;
        const auto tile = hwy::AllocateAligned<float>(rows * stride);
        const auto o = hwy::AllocateAligned<float>(rows * kColumns);
        std::vector<std::int32_t> lens(rows);
        std::vector<float> scores(rows * stride), m(rows), m_before(rows), l_before(rows);
        Sums sums(kernels, rows);
        for (std::size_t i = 0; i < rows * stride; ++i) {
          const std::size_t r = i / stride;
          lens[r] = static_cast<std::int32_t>(r);  // 0 to columns
          const float around = r % 5 == 0 ? 1000.0f : 0.0f;
          scores[i] = i % stride < r ? around + random.uniform(-20.0f, 20.0f) : (i % 2 == 0 ? kNaN : kInf);
          tile[i] = scores[i];
        }
        for (std::size_t r = 0; r < rows; ++r) {
          m[r] = m_before[r] = r % 3 == 0 ? -kInf : std::round(random.uniform(-30.0f, 30.0f));
          l_before[r] = r % 3 == 0 ? 0.0f : random.uniform(1.0f, 50.0f);
          sums.set(r, l_before[r]);
          for (std::size_t k = 0; k < kColumns; ++k)
            o[r * kColumns + k] = r % 3 == 0 ? 0.0f : static_cast<float>(k) - 20.0f;
        }
        kernels.step({.scores = tile.get(),
                      .scores_stride = static_cast<std::ptrdiff_t>(stride),
                      .num_rows = rows,
                      .num_columns = columns,
                      .lens = lens.data(),
                      .scale = scale.given,
                      .row_max = m.data(),
                      .row_sums = sums.data.get(),
                      .accumulators = o.get(),
                      .accumulators_stride = kColumns,
                      .accumulator_columns = kColumns});
        const std::vector<double> l = sums.totals();
        std::size_t wrong = 0;
        for (std::size_t r = 0; r < rows; ++r) {
          if (r == 0) wrong += m[r] != m_before[r] || l[r] != static_cast<double>(l_before[r]) ? 1u : 0u;
          // Two spacings of floats at the exponent, which 1000 makes large, and 2 ULP of the power.
          const double bound = 3e-7 + (r % 5 == 0 ? 1500.0 : 60.0) * 0x1p-23;
          double sum = 0.0;
          for (std::size_t j = 0; j < columns; ++j) {
            const double truth =
                j < r ? std::exp2(static_cast<double>(scores[r * stride + j]) * scale.truth - m[r]) : 0.0;
            wrong += std::abs(tile[r * stride + j] - truth) <= bound * truth ? 0u : 1u;
            sum += truth;
          }
          const double c = l_before[r] == 0.0f ? 0.0 : std::exp2(static_cast<double>(m_before[r]) - m[r]);
          const double truth = c * l_before[r] + sum;
          wrong += std::abs(l[r] - truth) <= bound * truth ? 0u : 1u;
          // c is a power of two: nothing is rounded. Far below it is 0.
          for (std::size_t k = 0; k < kColumns && l_before[r] != 0.0f; ++k) {
            const double scaled = c < 0x1p-126 ? 0.0 : c * (static_cast<double>(k) - 20.0);
            wrong += o[r * kColumns + k] == static_cast<float>(scaled) ? 0u : 1u;
          }
        }
        INFO(columns, " columns, scale ", scale.given);
        CHECK(wrong == 0);
      }
    }
  });
}

TEST_CASE("softmax_tile: exponents so large that floats are 2 to 64 apart weigh as small ones do, in any order") {
  for_each_target([](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    for (const float base : {0x1p24f, 0x1p26f, 0x1p27f, 0x1p28f, 0x1p29f, -0x1p25f, -0x1p28f}) {
      for (const float gap : {2.0f, 8.0f, 16.0f, 32.0f, 64.0f, 128.0f, 192.0f}) {
        const float larger = base + gap;
        if (larger - base != gap) continue;
        CAPTURE(base);
        CAPTURE(gap);
        const double expected = 1 / (1 + std::exp2(-static_cast<double>(gap)));
        const auto is_larger = [](std::size_t which) { return [=](std::size_t j) { return j == which ? 1.0 : 0.0; }; };
        const Outcome rising = run_row(kernels, {base, larger}, 1, 1.0f, is_larger(1));
        const Outcome falling = run_row(kernels, {larger, base}, 1, 1.0f, is_larger(0));
        CHECK(std::abs(static_cast<double>(rising.output[0]) - expected) <= 2e-7);
        CHECK(std::abs(static_cast<double>(falling.output[0]) - expected) <= 2e-7);
      }
    }
  });
}

TEST_CASE("softmax_tile: maxima of the product are used for whole rows of whole panels, and nowhere else") {
  for_each_target([](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    const std::size_t lanes = kernels.sums_stride / 2, width = kernels::pack_kernels(target.id()).panel_width;
    for (const std::size_t columns : {3 * width, 3 * width - lanes, 3 * width - 1}) {
      constexpr std::size_t kRows = 3;
      const std::size_t stride = 3 * width;
      Random random(columns);
      std::vector<float> results[2], maxima[2];
      std::vector<double> totals[2];
      const std::int32_t full = static_cast<std::int32_t>(columns), lens[kRows] = {full, full - 1, full};
      const auto scores = hwy::AllocateAligned<float>(kRows * stride);
      const auto max_lanes = hwy::AllocateAligned<float>(kRows * lanes);
      for (std::size_t i = 0; i < kRows * stride; ++i) scores[i] = random.uniform(-40.0f, 40.0f);
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          float max = -kInf;
          for (std::size_t j = lane; j < columns; j += lanes) max = std::max(max, scores[r * stride + j]);
          // Where they must not be used they are what padding or an invalid key may leave.
          const bool valid = columns % lanes == 0 && lens[r] == full;
          max_lanes[r * lanes + lane] = valid ? max : lane % 2 == 0 ? 1e30f : kNaN;
        }
      }
      for (const bool given : {false, true}) {
        const auto tile = hwy::AllocateAligned<float>(kRows * stride);
        const auto o = hwy::AllocateAligned<float>(kRows * kColumns);
        std::copy_n(scores.get(), kRows * stride, tile.get());
        std::fill_n(o.get(), kRows * kColumns, 1.0f);
        const Sums sums(kernels, kRows);
        std::vector<float> m(kRows, -kInf);
        kernels.step({.scores = tile.get(),
                      .scores_stride = static_cast<std::ptrdiff_t>(stride),
                      .num_rows = kRows,
                      .num_columns = columns,
                      .lens = lens,
                      .scale = 1.0f,
                      .max_lanes = given ? max_lanes.get() : nullptr,
                      .row_max = m.data(),
                      .row_sums = sums.data.get(),
                      .accumulators = o.get(),
                      .accumulators_stride = kColumns,
                      .accumulator_columns = kColumns});
        maxima[given] = m;
        totals[given] = sums.totals();
        for (std::size_t r = 0; r < kRows; ++r) {
          const float* row = tile.get() + r * stride;
          results[given].insert(results[given].end(), row, row + columns);
        }
      }
      INFO(columns, " columns");
      CHECK(maxima[0] == maxima[1]);
      CHECK(totals[0] == totals[1]);
      CHECK(results[0] == results[1]);
    }
  });
}

TEST_CASE("softmax_tile: a tile without keys for a row leaves m, l and o alone") {
  for_each_target([](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    const auto tile = hwy::AllocateAligned<float>(2 * kColumns);
    const auto o = hwy::AllocateAligned<float>(2 * kColumns);
    for (std::size_t i = 0; i < 2 * kColumns; ++i) tile[i] = kNaN, o[i] = static_cast<float>(i);
    const std::int32_t lens[2] = {0, 0};
    float m[2] = {-kInf, 5.0f};
    Sums sums(kernels, 2);
    sums.set(1, 3.0f);
    kernels.step({.scores = tile.get(),
                  .scores_stride = kColumns,
                  .num_rows = 2,
                  .num_columns = 33,
                  .lens = lens,
                  .scale = 1.0f,
                  .row_max = m,
                  .row_sums = sums.data.get(),
                  .accumulators = o.get(),
                  .accumulators_stride = kColumns,
                  .accumulator_columns = kColumns});
    CHECK((m[0] == -kInf && m[1] == 5.0f));
    CHECK(sums.totals() == std::vector<double>{0.0, 3.0});
    for (std::size_t i = 0; i < 2 * kColumns; ++i) {
      CHECK(o[i] == static_cast<float>(i));
      if (i % kColumns < 33) CHECK(tile[i] == 0.0f);
    }
  });
}

TEST_CASE("softmax_tile: NaN and +inf make the row NaN, -inf weighs 0, wherever they stand") {
  const auto value = [](std::size_t) { return 1.0; };
  for_each_target([&](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    for (const std::size_t num_keys : {150u, 400u}) {
      const std::size_t tile_size = num_keys == 150 ? 50 : 200;
      for (const Scale& scale : kScales) {
        for (std::size_t place = 0; place < num_keys; ++place) {
          for (const float special : {kNaN, -kNaN, kInf}) {
            for (const float others : {0.5f, 300.0f, -kInf}) {
              std::vector<float> scores(num_keys, others);
              scores[place] = special;
              // A later, much larger score must not scale the NaN away.
              if (place < tile_size && others == 0.5f) scores[num_keys - 1] = 200.0f;
              const Outcome outcome = run_row(kernels, scores, tile_size, scale.given, value);
              INFO(special, " at ", place, " among ", others);
              CHECK(std::isnan(outcome.sum));
              CHECK(std::all_of(outcome.output.begin(), outcome.output.end(), [](float x) { return std::isnan(x); }));
            }
          }
          for (const float large : {-1e30f, -1e8f, -3e6f, 1e30f, 3e38f}) {
            std::vector<float> scores(num_keys, -kInf);
            scores[place] = large;
            const Outcome outcome = run_row(kernels, scores, tile_size, scale.given, value);
            INFO(large, " at ", place);
            CHECK(std::isfinite(outcome.sum));
            CHECK(outcome.p[place] > 0.0f);
            CHECK(outcome.output[0] == 1.0f);
          }
        }
        const Outcome empty = run_row(kernels, std::vector<float>(num_keys, -kInf), tile_size, scale.given, value);
        CHECK(empty.max == -kInf);
        CHECK(empty.sum == 0.0);
        CHECK(empty.output == std::vector<float>(kColumns, 0.0f));
      }
    }
  });
}

}  // namespace
}  // namespace attend::tests
