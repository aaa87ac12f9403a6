#include "tools/bench_compare/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attend::tools {
namespace {

// The ranks of all of x, then of all of y, twice over: with ties ranks are halves.
struct Ranks {
  std::vector<std::size_t> doubled;
  double tie_term = 0;  // sum(t^3 - t)
};

Ranks ranks_of(std::span<const double> x, std::span<const double> y) {
  std::vector<double> all(x.begin(), x.end());
  all.insert(all.end(), y.begin(), y.end());
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return all[i]; });
  Ranks ranks{.doubled = std::vector<std::size_t>(all.size())};
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && all[order[end]] == all[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks.doubled[order[i]] = begin + 1 + end;  // begin + 1 to end, the mean
    const auto ties = static_cast<double>(end - begin);
    ranks.tie_term += ties * ties * ties - ties;
  }
  return ranks;
}

template <class T>
T sum_of(std::span<const T> values) {
  return std::accumulate(values.begin(), values.end(), T{0});
}

// How many of the ways to choose `count` of the ranks have the sum s, for each s. Below 2^53, so exact in double: 40
// choose 20 is 1.4e11.
std::vector<double> ways_by_sum(std::span<const std::size_t> ranks, std::size_t count) {
  const std::size_t most = sum_of(ranks);
  std::vector<std::vector<double>> ways(count + 1, std::vector<double>(most + 1, 0.0));
  ways[0][0] = 1;
  for (const std::size_t rank : ranks) {
    for (std::size_t chosen = count; chosen > 0; --chosen) {
      for (std::size_t sum = rank; sum <= most; ++sum) ways[chosen][sum] += ways[chosen - 1][sum - rank];
    }
  }
  return ways[count];
}

double exact_p(std::span<const std::size_t> ranks, std::size_t m) {
  // Both samples have the same p; the table is smaller for the smaller one.
  const std::size_t n = ranks.size() - m;
  const auto sample = m <= n ? ranks.first(m) : ranks.last(n);
  const std::vector<double> ways = ways_by_sum(ranks, sample.size());
  const std::size_t rank_sum = sum_of(sample);
  const std::span<const double> all(ways);
  const double tail = std::min(sum_of(all.first(rank_sum + 1)), sum_of(all.subspan(rank_sum)));
  return std::min(1.0, 2 * tail / sum_of(all));
}

// distance: of U from its mean. Equal numbers only: no deviation, nothing to tell apart.
double normal_p(double distance, double deviation) {
  if (deviation == 0) return 1;
  return std::min(1.0, std::erfc((distance - 0.5) / deviation / std::sqrt(2.0)));
}

double deviation_of_u(double m, double n, double tie_term) {
  const double all = m + n;
  return std::sqrt(m * n / 12 * (all + 1 - tie_term / (all * (all - 1))));
}

// The largest k with 2 P(U <= k - 1) <= alpha; 0 if there is none.
std::size_t critical_count(std::size_t m, std::size_t n, double alpha) {
  if (m * n <= kMaxExactPairs) {
    std::vector<std::size_t> ranks(m + n);
    std::iota(ranks.begin(), ranks.end(), std::size_t{1});
    const std::size_t fewer = std::min(m, n);
    const std::vector<double> ways = ways_by_sum(ranks, fewer);
    const double all = sum_of(std::span<const double>(ways));
    const std::size_t first = fewer * (fewer + 1) / 2;  // the sum of ranks where U is 0
    std::size_t k = 0;
    for (double below = ways[first]; 2 * below / all <= alpha; below += ways[first + k]) ++k;
    return k;
  }
  const double mean = 0.5 * static_cast<double>(m) * static_cast<double>(n);
  const double deviation = deviation_of_u(static_cast<double>(m), static_cast<double>(n), 0);
  const auto rejected = [&](std::size_t u) { return normal_p(mean - static_cast<double>(u), deviation) <= alpha; };
  std::size_t k = 0;
  while (k < m * n / 2 && rejected(k)) ++k;
  return k;
}

}  // namespace

double median(std::vector<double> values) {
  const std::size_t half = values.size() / 2;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(half);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

MannWhitney mann_whitney(std::span<const double> x, std::span<const double> y) {
  const Ranks ranks = ranks_of(x, y);
  const std::span<const std::size_t> doubled(ranks.doubled);
  const auto m = static_cast<double>(x.size()), n = static_cast<double>(y.size());
  const double u = 0.5 * static_cast<double>(sum_of(doubled.first(x.size()))) - 0.5 * m * (m + 1);
  if (x.size() * y.size() <= kMaxExactPairs) return {.u = u, .p = exact_p(doubled, x.size())};
  return {.u = u, .p = normal_p(std::abs(u - 0.5 * m * n), deviation_of_u(m, n, ranks.tie_term))};
}

double smallest_p(std::size_t m, std::size_t n) {
  double ways = 1;
  for (std::size_t i = 1; i <= std::min(m, n); ++i) ways *= static_cast<double>(m + n + 1 - i) / static_cast<double>(i);
  return std::min(1.0, 2 / ways);
}

RatioEstimate hodges_lehmann(std::span<const double> x, std::span<const double> y, double alpha) {
  std::vector<double> differences;
  differences.reserve(x.size() * y.size());
  for (const double a : x) {
    for (const double b : y) differences.push_back(std::log(b) - std::log(a));
  }
  std::ranges::sort(differences);
  RatioEstimate estimate{.ratio = std::exp(median(differences)), .interval = std::nullopt};
  if (const std::size_t k = critical_count(x.size(), y.size(), alpha); k > 0) {
    estimate.interval = {.low = std::exp(differences[k - 1]), .high = std::exp(differences[differences.size() - k])};
  }
  return estimate;
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

}  // namespace attend::tools
