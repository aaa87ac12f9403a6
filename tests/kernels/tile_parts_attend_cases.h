// Attention by bfloat16 parts for its tests: in one go, tile by tile, and in double.
#ifndef ATTEND_TESTS_KERNELS_TILE_PARTS_ATTEND_CASES_H_
#define ATTEND_TESTS_KERNELS_TILE_PARTS_ATTEND_CASES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/kernels/softmax_tile.h"
#include "engine/kernels/tile_parts.h"
#include "tests/kernels/tile_parts_cases.h"
#include "tests/support/compare.h"
#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"

namespace attend::tests {

class AttendingHead : public PartsHead {
 public:
  AttendingHead(const Target& target, std::size_t rows, std::size_t keys, std::size_t terms, std::size_t value_columns,
                const Draws& draws, bool in_place = true)
      : PartsHead(target, rows, keys, terms, value_columns, draws, in_place),
        softmax_(kernels::softmax_tile_kernels(target.id())),
        row_max_(rows),
        row_sums_(rows * softmax_.sums_stride) {}

  // What attention leaves of some rows.
  struct Results {
    std::vector<float> output, max;  // rows of `columns`
    std::vector<double> total;

    bool same_row(std::size_t row, const Results& other, std::size_t num_columns) const {
      return same_bits(&output[row * num_columns], &other.output[row * num_columns], num_columns) &&
             same_bits(&max[row], &other.max[row], 1) &&
             (total[row] == other.total[row] || (std::isnan(total[row]) && std::isnan(other.total[row])));
    }
  };
  // Rows first to first + count - 1 by `attend`; the keys in one call, or each in so many.
  Results attend(std::size_t first, std::size_t count, std::size_t tile_keys, std::size_t keys_per_call = 0,
                 std::size_t stride = 0) {
    start(first, count);
    if (keys_per_call == 0) keys_per_call = std::max<std::size_t>(num_keys, 1);
    if (stride == 0) stride = tile_keys;
    GuardedArray<float> scores(2 * kernels::kPartsRowsPerStep * stride);
    std::fill(scores.begin(), scores.end(), kNaN);
    const TilesOfThread tiles(kernels_);
    WholeTiles tiles_of_sums(sums_, first, count, sums_stride_);
    for (std::size_t begin = 0; begin < num_keys; begin += keys_per_call) {
      const std::size_t keys = std::min(keys_per_call, num_keys - begin);
      const std::vector<std::int32_t> lens = lens_within(first, count, begin, keys);
      kernels::AttendPartsArgs args{.score = score_args(first, count, begin, keys),
                                    .softmax = softmax_args(first, count, tiles_of_sums.data()),
                                    .pool = pool_args(count, begin, keys),
                                    .tile_keys = tile_keys};
      args.score.lens = lens.data();
      args.score.scores = scores.data();
      args.score.scores_stride = stride_of(stride);
      args.pool.c = tiles_of_sums.data();
      args.pool.accumulate = begin > 0;
      kernels_.attend(args);
    }
    return finish(first, count, tiles_of_sums.data());
  }
  // The same by `score`, the softmax's step and `pool`, tile by tile.
  Results attend_by_steps(std::size_t first, std::size_t count, std::size_t tile_keys) {
    start(first, count);
    GuardedArray<float> scores(up_to(count, kernels::kPartsRows) * tile_keys);
    std::fill(scores.begin(), scores.end(), kNaN);
    const TilesOfThread tiles(kernels_);
    WholeTiles tiles_of_sums(sums_, first, count, sums_stride_);
    for (std::size_t begin = 0; begin < num_keys; begin += tile_keys) {
      const std::size_t keys = std::min(tile_keys, num_keys - begin);
      const std::vector<std::int32_t> lens = lens_within(first, count, begin, keys);
      kernels::ScorePartsArgs score = score_args(first, count, begin, keys);
      score.lens = lens.data();
      score.scores = scores.data();
      score.scores_stride = stride_of(tile_keys);
      kernels_.score(score);
      kernels::SoftmaxTileArgs softmax = softmax_args(first, count, tiles_of_sums.data());
      softmax.scores = score.scores;
      softmax.scores_stride = score.scores_stride;
      softmax.num_columns = keys;
      softmax.lens = lens.data();
      softmax_.step(softmax);
      kernels::PoolPartsArgs pool = pool_args(count, begin, keys);
      pool.powers = score.scores;
      pool.powers_stride = score.scores_stride;
      pool.lens = lens.data();
      pool.c = tiles_of_sums.data();
      pool.accumulate = begin > 0;
      kernels_.pool(pool);
    }
    return finish(first, count, tiles_of_sums.data());
  }
  // Against softmax attention in double, in units of the contract's bound: 2e-7 (4 + max |score|) max |v|.
  double error_in_bounds(const Results& results, std::size_t row) {
    std::vector<double> exponents;
    double most = -std::numeric_limits<double>::infinity(), magnitude = 0, largest_value = 0, total = 0;
    for (std::size_t j = 0; j < seen(row); ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < size; ++k) {
        sum += static_cast<double>(query(row, k)) * static_cast<double>(key(j, k));
      }
      exponents.push_back(sum);
      most = std::max(most, sum);
      if (std::isfinite(sum)) magnitude = std::max(magnitude, std::abs(sum));
      for (std::size_t n = 0; n < columns; ++n) {
        largest_value = std::max(largest_value, std::abs(static_cast<double>(value(j, n))));
      }
    }
    const bool any = most > -std::numeric_limits<double>::infinity();
    for (double& exponent : exponents) total += exponent = any ? std::exp2(exponent - most) : 0.0;
    double worst = 0;
    for (std::size_t n = 0; n < columns; ++n) {
      double sum = 0;
      for (std::size_t j = 0; j < seen(row); ++j) sum += exponents[j] * static_cast<double>(value(j, n));
      const double expected = any ? sum / total : 0.0, actual = static_cast<double>(results.output[row * columns + n]);
      if (actual == expected) continue;
      const double bound = 2e-7 * (4 + 0.6931471805599453 * magnitude) * largest_value;
      worst = worse(worst, std::abs(actual - expected) / bound);
    }
    return worst;
  }

 private:
  kernels::SoftmaxTileArgs softmax_args(std::size_t first, std::size_t count, float* sums) {
    return {.scores = nullptr,
            .scores_stride = 0,
            .num_rows = count,
            .num_columns = 0,
            .lens = nullptr,
            .scale = 1.0f,
            .row_max = row_max_.data() + first,
            .row_sums = row_sums_.data() + first * softmax_.sums_stride,
            .accumulators = sums,
            .accumulators_stride = stride_of(sums_stride_),
            .accumulator_columns = sums_stride_};
  }
  std::vector<std::int32_t> lens_within(std::size_t first, std::size_t count, std::size_t begin,
                                        std::size_t keys) const {
    std::vector<std::int32_t> lens;
    for (std::size_t row = first; row < first + count; ++row) {
      lens.push_back(std::clamp(lens_[row] - static_cast<std::int32_t>(begin), 0, static_cast<std::int32_t>(keys)));
    }
    return lens;
  }
  void start(std::size_t first, std::size_t count) {
    take_queries(first, count);
    take_keys();
    take_values();
    std::fill(scratch_.begin(), scratch_.end(), std::uint16_t{0x7fc1});
    std::fill(sums_.begin(), sums_.end(), kNaN);
    std::fill(row_max_.begin(), row_max_.end(), -kInfinity);
    std::fill(row_sums_.begin(), row_sums_.end(), 0.0f);
  }
  // Rows that were not asked for stay NaN.
  Results finish(std::size_t first, std::size_t count, const float* sums) {
    Results results{std::vector<float>(num_rows * columns, kNaN),
                    {row_max_.begin(), row_max_.end()},
                    std::vector<double>(num_rows)};
    softmax_.total_sums(row_sums_.data(), num_rows, results.total.data());
    softmax_.finish_rows({.accumulators = sums,
                          .accumulators_stride = stride_of(sums_stride_),
                          .row_sum = results.total.data() + first,
                          .output = results.output.data() + first * columns,
                          .output_stride = stride_of(columns),
                          .num_rows = count,
                          .num_columns = columns});
    return results;
  }

  kernels::SoftmaxTileKernels softmax_;
  GuardedArray<float> row_max_, row_sums_;
};

}  // namespace attend::tests

#endif  // ATTEND_TESTS_KERNELS_TILE_PARTS_ATTEND_CASES_H_
