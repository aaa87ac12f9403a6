// What the online softmax leaves for whole rows, on every target: weights, of a second pass or of powers, and o / l.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/aligned_allocator.h>

#include "engine/kernels/softmax_tile.h"
#include "tests/kernels/softmax_tile_cases.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {
namespace {

using kernels::SoftmaxTileKernels;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kColumns = 64;  // of o: a multiple of the lanes of every target of today

TEST_CASE("softmax_tile weights: p / l of a second pass, into rows of any size that end at a guard page") {
  for_each_target([](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    Random random(4);
    constexpr std::size_t kRows = 6;
    for (const std::size_t columns : {0u, 1u, 2u, 7u, 16u, 17u, 64u, 67u, 128u, 131u}) {
      for (const Scale& scale : kScales) {
        const std::size_t stride = 192;
        const auto n = static_cast<std::int32_t>(columns);
        // A whole row, one cut short, none, all -inf, NaN, and scores of ten millions.
        const std::int32_t lens[kRows] = {n, n / 2, 0, n, n, n};
        const auto scores = hwy::AllocateAligned<float>(kRows * stride), tile = hwy::AllocateAligned<float>(stride);
        const auto o = hwy::AllocateAligned<float>(kColumns);
        std::fill_n(o.get(), kColumns, 0.0f);
        std::vector<float> m(kRows, -kInf);
        const Sums sums(kernels, kRows);
        for (std::size_t r = 0; r < kRows; ++r) {
          float* row = scores.get() + r * stride;
          for (std::size_t j = 0; j < stride; ++j) {
            row[j] = j >= static_cast<std::size_t>(lens[r]) ? kNaN : r == 3 ? -kInf : random.uniform(-9.0f, 9.0f);
            if (r == 5) row[j] *= 1e7f;
          }
          if (r == 4 && columns > 0) row[columns / 2] = kNaN;
          std::copy_n(row, stride, tile.get());
          kernels.step({.scores = tile.get(),
                        .scores_stride = static_cast<std::ptrdiff_t>(stride),
                        .num_rows = 1,
                        .num_columns = columns,
                        .lens = &lens[r],
                        .scale = scale.given,
                        .row_max = &m[r],
                        .row_sums = sums.data.get() + r * kernels.sums_stride,
                        .accumulators = o.get(),
                        .accumulators_stride = kColumns,
                        .accumulator_columns = kColumns});
        }
        const std::vector<double> l = sums.totals();
        for (const Guard guard : {Guard::kEnd, Guard::kBegin}) {
          const std::size_t weights_stride = columns + 3;
          GuardedArray<float> weights((kRows - 1) * weights_stride + columns, guard);
          std::fill(weights.begin(), weights.end(), -77.0f);
          kernels.weights({.scores = scores.get(),
                           .scores_stride = static_cast<std::ptrdiff_t>(stride),
                           .num_rows = kRows,
                           .num_columns = columns,
                           .lens = lens,
                           .scale = scale.given,
                           .row_max = m.data(),
                           .row_sum = l.data(),
                           .weights = weights.data(),
                           .weights_stride = static_cast<std::ptrdiff_t>(weights_stride)});
          std::size_t wrong = 0;
          for (std::size_t r = 0; r < kRows; ++r) {
            const float* row = scores.get() + r * stride;
            const auto len = static_cast<std::size_t>(lens[r]);
            double max = -kInf, sum = 0.0, total = 0.0;
            for (std::size_t j = 0; j < len; ++j) max = std::max<double>(max, row[j]);
            for (std::size_t j = 0; j < len; ++j) sum += std::exp2((row[j] - max) * scale.truth);
            for (std::size_t j = 0; j < columns; ++j) {
              const float w = weights[r * weights_stride + j];
              total += w;
              const bool zero = j >= len || r == 3;
              const double truth = zero ? 0.0 : std::exp2((row[j] - max) * scale.truth) / sum;
              wrong += (zero     ? w == 0.0f
                        : r == 4 ? std::isnan(w)
                        : r == 5 ? w >= 0.0f && w <= 1.0f
                                 : std::abs(w - truth) <= 2e-7 * (4 + 9))
                           ? 0u
                           : 1u;
            }
            if (r != 4 && len > 0) wrong += std::abs(total - (r == 3 ? 0.0 : 1.0)) <= 1e-6 ? 0u : 1u;
            for (std::size_t j = columns; j < weights_stride && r + 1 < kRows; ++j) {
              wrong += weights[r * weights_stride + j] != -77.0f ? 1u : 0u;
            }
          }
          INFO(columns, " columns, scale ", scale.given);
          CHECK(wrong == 0);
        }
      }
    }
  });
}

TEST_CASE("softmax_tile normalise: p / l into rows of any size that end at a guard page, 0 beyond their length") {
  for_each_target([](const Target& target) {
    const SoftmaxTileKernels kernels = kernels::softmax_tile_kernels(target.id());
    Random random(5);
    constexpr std::size_t kRows = 5, kStride = 192;
    const auto powers = hwy::AllocateAligned<float>(kRows * kStride);
    for (std::size_t columns = 0; columns <= 140; ++columns) {
      const auto n = static_cast<std::int32_t>(columns);
      const std::int32_t lens[kRows] = {n, n / 2, 0, n, n};
      const double l[kRows] = {3.0, 0.7, 1.0, 0.0, kNaN};
      for (std::size_t i = 0; i < kRows * kStride; ++i) powers[i] = random.uniform(0, 5);
      for (const Guard guard : {Guard::kEnd, Guard::kBegin}) {
        const std::size_t stride = columns + 3;
        GuardedArray<float> weights((kRows - 1) * stride + columns, guard);
        std::fill(weights.begin(), weights.end(), -77.0f);
        kernels.normalise({.powers = powers.get(),
                           .powers_stride = kStride,
                           .num_rows = kRows,
                           .num_columns = columns,
                           .lens = lens,
                           .row_sum = l,
                           .weights = weights.data(),
                           .weights_stride = static_cast<std::ptrdiff_t>(stride)});
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          const std::size_t r = i / stride, j = i % stride;
          const double truth = static_cast<double>(powers[r * kStride + j]) / l[r];
          const bool right = j >= columns                                       ? weights[i] == -77.0f
                             : j >= static_cast<std::size_t>(lens[r]) || r == 3 ? weights[i] == 0.0f
                             : r == 4                                           ? std::isnan(weights[i])
                                      : std::abs(weights[i] - truth) <= 1.3e-7 * truth;
          wrong += right ? 0u : 1u;
        }
        INFO(columns, " columns");
        CHECK(wrong == 0);
      }
    }
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
