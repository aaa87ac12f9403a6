#include "tools/attend/turn_times.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tools/bench_compare/statistics.h"

namespace attend::tools {
namespace {

// The largest k with 2 P(X < k) <= 0.05, X binomial (n, 1/2); 0 where there is none. In logarithms: 2^-n is no double
// for the thousands of turns that there may be.
std::size_t outermost_rank(std::size_t n) {
  const auto count = static_cast<double>(n);
  double below = 0;
  for (std::size_t k = 0; k <= n / 2; ++k) {
    const auto x = static_cast<double>(k);
    below += std::exp(std::lgamma(count + 1) - std::lgamma(x + 1) - std::lgamma(count - x + 1) - count * std::log(2.0));
    if (2 * below > 0.05) return k;
  }
  return n / 2;
}

double quantile(std::vector<double> values, double share) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

RatioOfTurns ratio_of(std::span<const Turn> turns) {
  std::vector<double> a, b, ratios;
  for (const Turn& turn : turns) {
    a.push_back(turn.a);
    b.push_back(turn.b);
    ratios.push_back(turn.b / turn.a);
  }
  std::sort(ratios.begin(), ratios.end());
  RatioOfTurns result{.count = turns.size(), .a = median(a), .b = median(b), .ratio = median(ratios), .low = {}};
  if (const std::size_t k = outermost_rank(turns.size()); k > 0) {
    result.low = ratios[k - 1];
    result.high = ratios[ratios.size() - k];
  }
  return result;
}

std::vector<double> slowness(std::span<const Turn> turns) {
  std::vector<double> a, b, slowness;
  for (const Turn& turn : turns) {
    a.push_back(turn.a);
    b.push_back(turn.b);
  }
  const double least = quantile(a, 0.05) * quantile(b, 0.05);
  for (const Turn& turn : turns) slowness.push_back(std::sqrt(turn.a * turn.b / least));
  return slowness;
}

Difference difference_of(std::span<const float> a, std::span<const float> b) {
  Difference found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) found.same_bits = false;
    if (std::isnan(a[i]) != std::isnan(b[i])) found.most = std::numeric_limits<double>::infinity();
    // Comparisons with NaN, of two NaN or equal infinities, are false.
    found.most = std::max(found.most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    found.largest = std::max(found.largest, std::abs(static_cast<double>(a[i])));
  }
  return found;
}

}  // namespace attend::tools
