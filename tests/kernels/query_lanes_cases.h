// Problems of queries in lanes, their results on a target and how far those are from the truth, for the tests of it.
#ifndef ATTEND_TESTS_KERNELS_QUERY_LANES_CASES_H_
#define ATTEND_TESTS_KERNELS_QUERY_LANES_CASES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <doctest/doctest.h>
#include <hwy/aligned_allocator.h>

#include "engine/kernels/query_lanes.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"

namespace attend::tests {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kLanesLog2E = 1.44269504f;

// A problem whose rows end at an unmapped page, or begin at one, with heads and rows at odd distances.
struct LanesProblem {
  std::size_t heads, queries, keys, size, value_size;
  std::size_t query_stride, head_stride, key_stride, value_stride;
  GuardedArray<float> q, k, v;
  std::vector<std::int32_t> lens;  // per query of each head

  LanesProblem(std::size_t heads_, std::size_t queries_, std::size_t keys_, std::size_t size_, std::size_t value_size_,
               Random& random, Guard guard = Guard::kEnd, std::size_t key_stride_ = 0, std::size_t value_stride_ = 0)
      : heads(heads_),
        queries(queries_),
        keys(keys_),
        size(size_),
        value_size(value_size_),
        query_stride(heads * (size + 1) + 2),
        head_stride(size + 1),
        key_stride(key_stride_ == 0 ? size + 3 : key_stride_),
        value_stride(value_stride_ == 0 ? value_size + 5 : value_stride_),
        q((queries - 1) * query_stride + (heads - 1) * head_stride + size, guard),
        k((keys - 1) * key_stride + size, guard),
        v((keys - 1) * value_stride + value_size, guard),
        lens(heads * queries, static_cast<std::int32_t>(keys)) {
    for (float& x : q) x = random.normal();
    for (float& x : k) x = random.normal();
    for (float& x : v) x = random.normal();
  }
  const float* query(std::size_t lane) const {
    return q.data() + lane / queries * head_stride + lane % queries * query_stride;
  }
};

// What no result depends on.
struct LanesHints {
  std::span<kernels::PrefetchRows> ahead = {};
  bool two_lines = false;
  bool ahead_of_values = false;
  bool keep_values = true;
};

// Row of lane i: heads * queries rows of value_size.
inline std::vector<float> run_lanes(const kernels::QueryLanesKernels& kernels, const LanesProblem& p, std::size_t step,
                                    bool divide = true, Guard guard = Guard::kEnd, const LanesHints& hints = {}) {
  const std::size_t used = p.heads * p.queries;
  const std::size_t L = (used + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
  const auto packed = hwy::AllocateAligned<float>(p.size * L);
  GuardedArray<float> scores(step * L, Guard::kEnd);  // whole vectors, so aligned
  const std::size_t o_row = (p.value_size + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
  GuardedArray<float> o(used * o_row, Guard::kEnd);
  const auto sums = hwy::AllocateAligned<float>(3 * L), factors = hwy::AllocateAligned<float>(L);
  GuardedArray<std::int32_t> lens(L, Guard::kEnd);
  std::fill_n(packed.get(), p.size * L, kNaN);
  std::fill_n(scores.data(), step * L, kNaN);
  std::fill_n(o.data(), used * o_row, kNaN);
  std::fill_n(sums.get(), 3 * L, kNaN);
  kernels.pack({.queries = p.q.data(),
                .head_stride = static_cast<std::ptrdiff_t>(p.head_stride),
                .row_stride = static_cast<std::ptrdiff_t>(p.query_stride),
                .num_heads = p.heads,
                .num_queries = p.queries,
                .size = p.size,
                .scale = kLanesLog2E,
                .packed = packed.get()});
  for (std::size_t i = 0; i < p.size * L; ++i) {
    const std::size_t lane = i % L;
    if (packed[i] != (lane < used ? kLanesLog2E * p.query(lane)[i / L] : 0.0f)) {
      CHECK(std::isnan(packed[i]));
      CHECK(std::isnan(p.query(lane)[i / L]));
    }
  }
  // Where results go: queries of all heads, backwards; what lies between the rows stays.
  const std::size_t row = p.value_size + 3;
  GuardedArray<float> output((used - 1) * row + p.value_size, guard);
  std::fill(output.begin(), output.end(), -77.0f);
  const kernels::StoreLanesArgs store{.from = o.data(),
                                      .lane_sum = sums.get() + L,
                                      .lane_lost = sums.get() + 2 * L,
                                      .num_heads = p.heads,
                                      .num_queries = p.queries,
                                      .size = p.value_size,
                                      .output = output.data() + (used - 1) * row,
                                      .head_stride = -static_cast<std::ptrdiff_t>(p.queries * row),
                                      .row_stride = -static_cast<std::ptrdiff_t>(row),
                                      .divide = divide};
  for (std::size_t first = 0; first < p.keys; first += step) {
    std::int32_t longest = 0, shortest = static_cast<std::int32_t>(step);
    for (std::size_t i = 0; i < L; ++i) {
      lens[i] =
          i < used ? std::clamp(p.lens[i] - static_cast<std::int32_t>(first), 0, static_cast<std::int32_t>(step)) : 0;
      if (i < used) longest = std::max(longest, lens[i]), shortest = std::min(shortest, lens[i]);
    }
    kernels.step({.queries = packed.get(),
                  .num_lanes = L,
                  .num_used = used,
                  .size = p.size,
                  .value_size = p.value_size,
                  .keys = p.k.data() + first * p.key_stride,
                  .keys_stride = static_cast<std::ptrdiff_t>(p.key_stride),
                  .values = p.v.data() + first * p.value_stride,
                  .values_stride = static_cast<std::ptrdiff_t>(p.value_stride),
                  .num_keys = static_cast<std::size_t>(longest),
                  .shortest = static_cast<std::size_t>(shortest),
                  .lens = lens.data(),
                  .scores = scores.data(),
                  .first = first == 0,
                  .lane_max = sums.get(),
                  .lane_sum = sums.get() + L,
                  .lane_lost = sums.get() + 2 * L,
                  .accumulators = o.data(),
                  .ahead = hints.ahead,
                  .two_lines = hints.two_lines,
                  .ahead_of_values = hints.ahead_of_values,
                  .keep_values = hints.keep_values,
                  .store = first + step >= p.keys ? &store : nullptr,
                  .factors = factors.get()});
  }
  std::vector<float> result;
  std::size_t overwritten = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (i % row >= p.value_size && output[i] != -77.0f) ++overwritten;
  }
  CHECK(overwritten == 0);
  for (std::size_t i = 0; i < used; ++i) {
    const float* from = output.data() + (used - 1 - i) * row;
    result.insert(result.end(), from, from + p.value_size);
    if (!divide) {  // what a merge needs: 2^m and l in the same units
      result.push_back(sums[i]);
      result.push_back(sums[L + i] - sums[2 * L + i]);
    }
  }
  return result;
}

// The largest distance from the truth in units of 2e-7 (4 + max|score|) max|v|; infinite where NaN or 0 differ. Where
// that would allow anything at all, though one score is above all others whatever their rounding: in units of 1e-6
// max|v|.
inline double lanes_error(const std::vector<float>& result, const LanesProblem& p) {
  double worst = 0;
  for (std::size_t lane = 0; lane < p.heads * p.queries; ++lane) {
    const std::size_t len = static_cast<std::size_t>(p.lens[lane]);
    std::vector<double> scores(len);
    double max = -kInf, second = -kInf, largest = 0, scale = 0;
    for (std::size_t j = 0; j < len; ++j) {
      for (std::size_t k = 0; k < p.size; ++k) {
        scores[j] += static_cast<double>(p.query(lane)[k]) * p.k[j * p.key_stride + k];
      }
      second = std::max(second, std::min(max, scores[j]));
      max = std::max(max, scores[j]);
      largest = std::max(largest, std::abs(scores[j]));
      for (std::size_t n = 0; n < p.value_size; ++n)
        scale = std::max<double>(scale, std::abs(p.v[j * p.value_stride + n]));
    }
    double bound = 2e-7 * (4 + largest);
    if (bound >= 1 && max - second > 2 * bound + 40) bound = 1e-6;
    double sum = 0;
    for (double& s : scores) sum += s = std::exp(s - max);
    for (std::size_t n = 0; n < p.value_size; ++n) {
      double truth = 0;
      for (std::size_t j = 0; j < len; ++j) truth += scores[j] / sum * p.v[j * p.value_stride + n];
      const double error = std::abs(result[lane * p.value_size + n] - truth);
      if (!(error <= 1e30)) return kInf;
      if (error > 0) worst = std::max(worst, error / (bound * scale));
    }
  }
  return worst;
}

}  // namespace attend::tests

#endif  // ATTEND_TESTS_KERNELS_QUERY_LANES_CASES_H_
