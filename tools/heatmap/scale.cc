#include "tools/heatmap/scale.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace attend::tools {
namespace {

// Where a scale may end, in tenths of a power of ten, and the step between its ticks: three to five steps of a round
// size.
struct RoundEnd {
  int tenths;
  int step_tenths;
};
constexpr RoundEnd kRoundEnds[] = {{10, 2},  {15, 5},  {20, 5},  {25, 5},  {30, 10},
                                   {40, 10}, {50, 10}, {60, 20}, {80, 20}, {100, 20}};

// 0.2f is 0.200000003 as a double; such a weight must not send the scale on to 0.25.
constexpr double kTolerance = 1e-6;

// tenths/10 * 10^exponent with so many decimals as all ticks of the scale need.
std::string tick_label(int tenths, int step_tenths, int exponent) {
  constexpr int kMinFixedExponent = -4;  // below, 0.00005 is longer than 5e-05
  if (tenths == 0 && exponent < kMinFixedExponent) return "0";
  const int fraction_digits = step_tenths % 10 == 0 ? 0 : 1;
  const bool fixed = exponent >= kMinFixedExponent;
  std::array<char, 64> digits;
  const double value = tenths * std::pow(10.0, exponent) / 10;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific,
                                 fixed ? std::max(0, fraction_digits - exponent) : fraction_digits);
  return {digits.data(), end.ptr};
}

}  // namespace

Scale scale_for(double largest) {
  const double wanted = largest > 0 ? std::min(largest, 1.0) : 1.0;
  const int exponent = static_cast<int>(std::floor(std::log10(wanted) + kTolerance));
  const double power = std::pow(10.0, exponent);
  const auto* round_end = std::ranges::find_if(kRoundEnds, [&](const RoundEnd& candidate) {
    return candidate.tenths * power / 10 * (1 + kTolerance) >= wanted;
  });
  Scale scale;
  scale.end = round_end->tenths * power / 10;
  for (int tenths = 0; tenths <= round_end->tenths; tenths += round_end->step_tenths) {
    scale.ticks.push_back({.position = static_cast<double>(tenths) / round_end->tenths,
                           .label = tick_label(tenths, round_end->step_tenths, exponent)});
  }
  return scale;
}

}  // namespace attend::tools
