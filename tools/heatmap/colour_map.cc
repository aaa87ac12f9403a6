#include "tools/heatmap/colour_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace attend::tools {
namespace {

// Every fifth of matplotlib's 256 entries (255 = 51 * 5, so both ends are among them).
// clang-format off
constexpr Colour kViridis[] = {
    {68, 1, 84},    {70, 8, 92},    {71, 16, 99},   {72, 23, 105},  {72, 29, 111},  {72, 36, 117},  {71, 42, 122},
    {70, 48, 126},  {69, 55, 129},  {67, 61, 132},  {65, 66, 135},  {63, 72, 137},  {61, 78, 138},  {58, 83, 139},
    {56, 89, 140},  {53, 94, 141},  {51, 99, 141},  {49, 104, 142}, {46, 109, 142}, {44, 113, 142}, {42, 118, 142},
    {41, 123, 142}, {39, 128, 142}, {37, 132, 142}, {35, 137, 142}, {33, 142, 141}, {32, 146, 140}, {31, 151, 139},
    {30, 156, 137}, {31, 161, 136}, {33, 165, 133}, {36, 170, 131}, {40, 174, 128}, {46, 179, 124}, {53, 183, 121},
    {61, 188, 116}, {70, 192, 111}, {80, 196, 106}, {90, 200, 100}, {101, 203, 94}, {112, 207, 87}, {124, 210, 80},
    {137, 213, 72}, {149, 216, 64}, {162, 218, 55}, {176, 221, 47}, {189, 223, 38}, {202, 225, 31}, {216, 226, 25},
    {229, 228, 25}, {241, 229, 29}, {253, 231, 37},
};
// clang-format on

std::uint8_t mix(std::uint8_t from, std::uint8_t to, double fraction) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * fraction));
}

}  // namespace

std::span<const Colour> control_points() { return kViridis; }

Colour colour_of(float weight, double scale_end) {
  if (std::isnan(weight)) return kNanColour;
  const std::size_t last = std::size(kViridis) - 1;
  const double position = std::clamp(static_cast<double>(weight) / scale_end, 0.0, 1.0) * static_cast<double>(last);
  const auto lower = std::min(static_cast<std::size_t>(position), last - 1);
  const double fraction = position - static_cast<double>(lower);
  const Colour& from = kViridis[lower];
  const Colour& to = kViridis[lower + 1];
  return {mix(from.red, to.red, fraction), mix(from.green, to.green, fraction), mix(from.blue, to.blue, fraction)};
}

std::string to_hex(Colour colour) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex = "#";
  for (const std::uint8_t channel : {colour.red, colour.green, colour.blue}) {
    hex += kDigits[channel / 16];
    hex += kDigits[channel % 16];
  }
  return hex;
}

}  // namespace attend::tools
