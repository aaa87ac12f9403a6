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

#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using kernels::FinishRowsArgs;
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
Outcome run_row(const SoftmaxTileKernels& kernels, const std::vector<float>& scores, std::size_t tile_size,
                Value&& value) {
  const std::size_t stride = (tile_size + kColumns - 1) / kColumns * kColumns;
  const auto tile = hwy::AllocateAligned<float>(stride);
  const auto o = hwy::AllocateAligned<float>(kColumns);
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
                  .row_max = &outcome.max,
                  .row_sum = &outcome.sum,
                  .accumulators = o.get(),
                  .accumulators_stride = kColumns,
                  .accumulator_columns = kColumns});
    for (std::size_t k = 1; k < kColumns; ++k) CHECK(o[k] == o[0]);
    pooled *= o[0];
    for (std::size_t j = 0; j < count; ++j) pooled += static_cast<double>(tile[j]) * value(first + j);
    outcome.p.insert(outcome.p.end(), tile.get(), tile.get() + count);
  }
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
  add("maximum jumps by 8.01 a tile", [](std::size_t j) { return static_cast<float>(j / 512) * 8.01f; });
  add("ramp down", [](std::size_t j) { return static_cast<float>(j) * -1e-3f; });
  add("largest last, by 7.9", [](std::size_t j) { return j == kKeys - 1 ? 7.9f : 0.0f; });
  add("largest last, by 11", [](std::size_t j) { return j == kKeys - 1 ? 11.0f : 0.0f; });
  add("spread over thousands", [&](std::size_t) { return random.uniform(-3000.0f, 3000.0f); });
  add("1e30", [&](std::size_t) { return random.uniform(-1e30f, 1e30f); });
  add("-inf for three tiles", [&](std::size_t j) { return j < 1536 ? -kInf : random.normal(); });
  return rows;
}

TEST_CASE("softmax_tile: 65536 keys in tiles of 512, adversarial rows") {
  const std::vector<Row> rows = adversarial_rows();
  const auto value = [](std::size_t j) { return j % 3 == 0 ? 1.0 : 0.25; };
  for_each_target([&](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    double worst = 0.0, worst_sum = 0.0;
    std::string worst_row, worst_sum_row;
    for (const Row& row : rows) {
      double max = -kInf, largest = 0.0, sum = 0.0, pooled = 0.0;
      for (const float s : row.scores) {
        max = std::max<double>(max, s);
        if (s != -kInf) largest = std::max<double>(largest, std::abs(s));
      }
      for (std::size_t j = 0; j < row.scores.size(); ++j) {
        const double p = std::exp(row.scores[j] - max);
        sum += p;
        pooled += p * value(j);
      }
      const Outcome outcome = run_row(kernels, row.scores, 512, value);
      INFO(row.name);
      const double bound = 2e-7 * (4.0 + largest);
      const double truth = sum * std::exp(max - outcome.max);
      const double sum_error = std::abs(outcome.sum - truth) / truth / bound;
      CHECK(sum_error <= 1.0);
      CHECK(max <= static_cast<double>(outcome.max) * (1 + (outcome.max > 0 ? 1e-6 : -1e-6)) + 8.001);
      double error = 0.0;
      for (std::size_t k = 0; k < kColumns; ++k) {
        error = std::max(error, std::abs((k % 2 == 0 ? 1 : -1) * outcome.output[k] - pooled / sum) / bound);
      }
      CHECK(error <= 1.0);
      if (sum_error > worst_sum) worst_sum = sum_error, worst_sum_row = row.name;
      if (error > worst) worst = error, worst_row = row.name;
    }
    MESSAGE(target.name(), ": in units of 2e-7 (4 + max|score|): sum ", worst_sum, " (", worst_sum_row, "), output ",
            worst, " (", worst_row, ")");
  });
}

TEST_CASE("softmax_tile: p is exp(s - m), 0 beyond each row's length; rows of any length side by side") {
  for_each_target([](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    Random random(2);
    for (const std::size_t columns : {1u, 2u, 3u, 15u, 16u, 17u, 63u, 64u, 65u, 127u, 200u}) {
      const std::size_t stride = (columns + kColumns - 1) / kColumns * kColumns;
      const std::size_t rows = columns + 1;
      const auto tile = hwy::AllocateAligned<float>(rows * stride);
      const auto o = hwy::AllocateAligned<float>(rows * kColumns);
      std::vector<std::int32_t> lens(rows);
      std::vector<float> scores(rows * stride), m(rows), m_before(rows);
      std::vector<double> l(rows), l_before(rows);
      for (std::size_t i = 0; i < rows * stride; ++i) {
        const std::size_t r = i / stride;
        lens[r] = static_cast<std::int32_t>(r);  // 0 to columns
        scores[i] = i % stride < r ? random.uniform(-20.0f, 20.0f) : kNaN;
        tile[i] = scores[i];
      }
      for (std::size_t r = 0; r < rows; ++r) {
        m[r] = m_before[r] = r % 3 == 0 ? -kInf : random.uniform(-20.0f, 20.0f);
        l[r] = l_before[r] = r % 3 == 0 ? 0.0 : static_cast<double>(random.uniform(1.0f, 50.0f));
        for (std::size_t k = 0; k < kColumns; ++k)
          o[r * kColumns + k] = r % 3 == 0 ? 0.0f : static_cast<float>(k) - 20.0f;
      }
      kernels.step({tile.get(), static_cast<std::ptrdiff_t>(stride), rows, columns, lens.data(), m.data(), l.data(),
                    o.get(), kColumns, kColumns});
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < rows; ++r) {
        if (r == 0) wrong += m[r] != m_before[r] || l[r] != l_before[r] ? 1u : 0u;
        // 4e-6: half a spacing of floats at s - m = 40, and an ULP of exp.
        double sum = 0.0;
        for (std::size_t j = 0; j < columns; ++j) {
          const double truth = j < r ? std::exp(static_cast<double>(scores[r * stride + j]) - m[r]) : 0.0;
          wrong += std::abs(tile[r * stride + j] - truth) <= 4e-6 * truth ? 0u : 1u;
          sum += truth;
        }
        const double c = l_before[r] == 0.0 ? 0.0 : std::exp(static_cast<double>(m_before[r]) - m[r]);
        const double truth = c * l_before[r] + sum;
        wrong += std::abs(l[r] - truth) <= 4e-6 * truth ? 0u : 1u;
        for (std::size_t k = 0; k < kColumns && l_before[r] != 0.0; ++k) {
          const double scaled = c * (static_cast<double>(k) - 20.0);
          wrong += std::abs(o[r * kColumns + k] - scaled) <= 4e-6 * std::abs(scaled) ? 0u : 1u;
        }
      }
      INFO(columns, " columns");
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("softmax_tile: a tile without keys for a row leaves m, l and o alone") {
  for_each_target([](const Target& target) {
    const auto tile = hwy::AllocateAligned<float>(2 * kColumns);
    const auto o = hwy::AllocateAligned<float>(2 * kColumns);
    for (std::size_t i = 0; i < 2 * kColumns; ++i) tile[i] = kNaN, o[i] = static_cast<float>(i);
    const std::int32_t lens[2] = {0, 0};
    float m[2] = {-kInf, 5.0f};
    double l[2] = {0.0, 3.0};
    kernels::softmax_tile_kernels(target.id())
        .step({tile.get(), kColumns, 2, 33, lens, m, l, o.get(), kColumns, kColumns});
    CHECK((m[0] == -kInf && m[1] == 5.0f && l[0] == 0.0 && l[1] == 3.0));
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
    constexpr std::size_t kKeys = 150, kTile = 50;
    for (std::size_t place = 0; place < kKeys; ++place) {
      for (const float special : {kNaN, -kNaN, kInf}) {
        for (const float others : {0.5f, -kInf}) {
          std::vector<float> scores(kKeys, others);
          scores[place] = special;
          // A later, much larger score must not scale the NaN away.
          if (place < kTile && others == 0.5f) scores[kKeys - 1] = 200.0f;
          const Outcome outcome = run_row(kernels, scores, kTile, value);
          INFO(special, " at ", place, " among ", others);
          CHECK(std::isnan(outcome.sum));
          CHECK(std::all_of(outcome.output.begin(), outcome.output.end(), [](float x) { return std::isnan(x); }));
        }
      }
      std::vector<float> scores(kKeys, -kInf);
      scores[place] = -1e30f;
      const Outcome outcome = run_row(kernels, scores, kTile, value);
      CHECK(outcome.sum == 1.0);
      CHECK(outcome.p[place] == 1.0f);
      CHECK(outcome.output[0] == 1.0f);
    }
    const Outcome empty = run_row(kernels, std::vector<float>(kKeys, -kInf), kTile, value);
    CHECK(empty.max == -kInf);
    CHECK(empty.sum == 0.0);
    CHECK(empty.output == std::vector<float>(kColumns, 0.0f));
  });
}

TEST_CASE("softmax_tile finish_rows: o / l into rows of any size that end at a guard page") {
  for_each_target([](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    Random random(3);
    constexpr std::size_t kRows = 4;
    for (std::size_t columns = 0; columns <= 70; ++columns) {
      const std::size_t stride = 128;
      const auto o = hwy::AllocateAligned<float>(kRows * stride);
      for (std::size_t i = 0; i < kRows * stride; ++i) o[i] = random.normal();
      const double l[kRows] = {3.0, 0.0, kNaN, 0.7};
      for (const Guard guard : {Guard::kEnd, Guard::kBegin}) {
        const std::size_t output_stride = columns + 3;
        GuardedArray<float> output((kRows - 1) * output_stride + columns, guard), copy(output.size(), guard);
        std::fill(output.begin(), output.end(), -77.0f);
        kernels.finish_rows({o.get(), static_cast<std::ptrdiff_t>(stride), l, output.data(),
                             static_cast<std::ptrdiff_t>(output_stride), kRows, columns});
        // Backwards, and without sums.
        kernels.finish_rows({o.get(), static_cast<std::ptrdiff_t>(stride), nullptr,
                             copy.data() + (kRows - 1) * output_stride, -static_cast<std::ptrdiff_t>(output_stride),
                             kRows, columns});
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < output.size(); ++i) {
          const std::size_t r = i / output_stride, k = i % output_stride;
          if (k >= columns) {
            wrong += output[i] != -77.0f ? 1u : 0u;
            continue;
          }
          const float x = o[r * stride + k];
          wrong += (r == 1   ? output[i] == 0.0f
                    : r == 2 ? std::isnan(output[i])
                             : output[i] == x / static_cast<float>(l[r]))
                       ? 0u
                       : 1u;
          wrong += copy[(kRows - 1 - r) * output_stride + k] != x ? 1u : 0u;
        }
        INFO(columns, " columns");
        CHECK(wrong == 0);
      }
    }
  });
}

}  // namespace
}  // namespace attend::tests
