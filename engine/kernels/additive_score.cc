#include "engine/kernels/additive_score.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/additive_score.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/kernels/additive_score-inl.h"
#include "engine/kernels/factored_score-inl.h"
#include "engine/kernels/key_exps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace {

void Direct(const AdditiveScoreArgs& args) { AdditiveScoreDirect(hn::ScalableTag<float>(), args); }
void Factored(const FactoredScoreArgs& args) { FactoredScore(hn::ScalableTag<float>(), args); }
void ExpKeysF32(const ExpKeysArgs& args) { ExpKeys(hn::ScalableTag<float>(), args); }
void ExpRowsF32(const ExpRowsArgs& args) { ExpRows(hn::ScalableTag<float>(), args); }
float Largest(const float* key_max, std::size_t n) { return MaxOfKeys(hn::ScalableTag<float>(), key_max, n); }

AdditiveScoreKernels Kernels() {
  return {.lanes = hn::Lanes(hn::ScalableTag<float>()),
          .direct = &Direct,
          .factored = &Factored,
          .exp_keys = &ExpKeysF32,
          .exp_rows = &ExpRowsF32,
          .largest = &Largest};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::kernels {

AdditiveScoreKernels additive_score_kernels(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Kernels); }

namespace {

// The largest |a| + |b| for which count terms have a common fraction of normal floats: the smallest denominator is the
// product of the alphas, the largest that times t^count with t = 1 + e^2(|a| + |b|), and the numerator at most
// sum |x| / K + sum 1 / |tau| <= 2 sum |x| / K = sum 1 / |alpha| denominators.
double range_of_terms(const float* alphas, std::size_t count) {
  double smallest = 0.0, ratio = 1.0;
  for (std::size_t i = 0; i < count; ++i) {
    smallest += std::log2(std::abs(static_cast<double>(alphas[i])));
    ratio += 1.0 / std::abs(static_cast<double>(alphas[i]));
  }
  if (!(smallest >= -125.5)) return -1.0;
  const double log2_t = (127.0 - smallest - std::log2(ratio)) / static_cast<double>(count);
  return log2_t > 1.0 ? 0.5 * std::log(std::exp2(log2_t) - 1.0) : -1.0;
}

// 2^16 times the geometric mean of a group's |alpha|. Where tanh is near -1, tau, its products of two, four and eight
// are just above powers of this: 1.8, 1.62, 1.31 and 1.72 times powers of two, far from the start of a binade, where
// roundings are largest. 1.3 to 1.75 and 1.85 were wrong by 3 % to 22 % more.
constexpr double kMeanAlpha[8] = {1.8, 1.807, 1.793, 1.814, 1.786, 1.821, 1.779, 1.828};

// Folds a group of count <= 8 weights, none of them zero; lowers the ranges to its own.
void fold_group(const double* x, std::size_t count, double mean_alpha, float* alphas, float* constants, float* ranges) {
  double mean_log2 = 0.0;
  for (std::size_t i = 0; i < count; ++i) mean_log2 += std::log2(std::abs(2.0 * x[i])) / static_cast<double>(count);
  const float k = static_cast<float>(std::exp2(mean_log2) * mean_alpha * 0x1p-16);
  double sums[kSumOfEight] = {};
  for (std::size_t i = 0; i < 8; ++i) {
    alphas[i] = i < count ? static_cast<float>(static_cast<double>(k) / (2.0 * x[i])) : 0.0f;
    if (i >= count) continue;
    const double x_over_k = 0.5 / static_cast<double>(alphas[i]);
    sums[i] = x_over_k;
    sums[kSumsOfTwo + i / 2] += x_over_k;
    sums[kSumsOfFour + i / 4] += x_over_k;
  }
  std::copy(std::begin(sums), std::end(sums), constants);
  constants[kSumOfEight] = static_cast<float>(sums[kSumsOfFour] + sums[kSumsOfFour + 1]);
  constants[kFactor] = k;
  const auto limit = [&](ScoreTier tier, std::size_t part) {
    float& range = ranges[static_cast<std::size_t>(tier)];
    for (std::size_t i = 0; i + part <= count; i += part) {
      range = std::min(range, static_cast<float>(range_of_terms(alphas + i, part)));
    }
  };
  // What is left of a group that is not whole goes in halves, or in twos.
  for (const std::size_t part : {1, 2, 4, 8}) limit(ScoreTier::kEight, part);
  for (const std::size_t part : {1, 2, 4}) limit(ScoreTier::kFour, part);
  for (const std::size_t part : {1, 2, 3}) limit(ScoreTier::kThree, part);
  for (const std::size_t part : {1, 2}) limit(ScoreTier::kTwo, part);
  limit(ScoreTier::kOne, 1);
}

}  // namespace

float fold_w_v(const float* w_v, std::size_t num_hiddens, float* folded) {
  float* constants = folded + folded_constants_at(num_hiddens);
  float* ranges = folded + folded_ranges_at(num_hiddens);
  std::fill(ranges, ranges + kNumScoreTiers - 1, kExpMax);
  double sum = 0.0;
  float max = 0.0f;
  for (std::size_t u = 0; u < num_hiddens; ++u) {
    sum += std::abs(static_cast<double>(w_v[u]));
    max = std::max(max, std::abs(w_v[u]));
  }
  if (!std::isfinite(sum)) {
    std::fill(folded, ranges, 0.0f);
    std::fill(ranges, ranges + kNumScoreTiers - 1, -1.0f);
    return 1.0f;
  }
  const int exponent = max > 0.0f ? std::min(std::ilogb(max) + 1, 127) : 0;
  const double smallest = max > 0.0f ? std::scalbn(sum / static_cast<double>(num_hiddens), -exponent) * 0x1p-28 : 1.0;
  double largest_group = 0.0;
  for (std::size_t u = 0; u < num_hiddens; u += 8) {
    double x[8], group = 0.0;
    const std::size_t count = std::min<std::size_t>(8, num_hiddens - u);
    for (std::size_t i = 0; i < count; ++i) {
      const double exact = std::scalbn(static_cast<double>(w_v[u + i]), -exponent);
      group += std::abs(static_cast<double>(w_v[u + i]));
      x[i] = std::copysign(std::max(std::abs(exact), smallest), exact);
    }
    largest_group = std::max(largest_group, group);
    fold_group(x, count, kMeanAlpha[u / 8 % 8], folded + u, constants + u / 8 * kGroupConstants, ranges);
  }
  const auto drop = [&](ScoreTier tier) { ranges[static_cast<std::size_t>(tier)] = -1.0f; };
  if (largest_group > sum / 5) drop(ScoreTier::kEight);
  if (largest_group > sum / 2) drop(ScoreTier::kFour), drop(ScoreTier::kThree);
  return max > 0.0f ? std::scalbn(1.0f, exponent) : 0.0f;
}

void widen_key_exps(float* exps, std::size_t num_hiddens, std::size_t lanes, std::size_t num_keys,
                    std::size_t num_more) {
  const std::size_t keys = num_keys % lanes, width = exps_width(keys, lanes), wide = exps_width(keys + num_more, lanes);
  if (keys == 0 || width == wide) return;
  float* vector = exps + (num_keys - keys) * num_hiddens;
  // From the last unit on, since each moves up over those behind it.
  for (std::size_t u = num_hiddens; u-- > 0;) std::memmove(vector + u * wide, vector + u * width, keys * sizeof(float));
}

float widest_range(const float* folded_w_v, std::size_t num_hiddens) {
  const float* ranges = folded_w_v + folded_ranges_at(num_hiddens);
  return *std::max_element(ranges, ranges + kNumScoreTiers - 1);
}

}  // namespace attend::kernels
#endif
