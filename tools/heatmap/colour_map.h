// From weights to colours: viridis, by Nathaniel Smith, Stéfan van der Walt and Eric Firing (2015; dedicated to the
// public under CC0). Equal steps of weight look like equal steps of lightness, in grey print and to colour-blind
// readers too.
#ifndef ATTEND_TOOLS_HEATMAP_COLOUR_MAP_H_
#define ATTEND_TOOLS_HEATMAP_COLOUR_MAP_H_

#include <cstdint>
#include <span>
#include <string>

namespace attend::tools {

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  bool operator==(const Colour&) const = default;
};

inline constexpr Colour kPaper = {255, 255, 255};
inline constexpr Colour kInk = {34, 34, 34};
// Vermilion of Okabe and Ito's colour-blind-safe set: viridis has neither its hue nor, to red-green blind eyes, its
// brown.
inline constexpr Colour kNanColour = {213, 94, 0};

// Evenly spaced from 0 to 1. Between them colours are interpolated, within one step of 255 of the published table.
std::span<const Colour> control_points();

// The colour of weight on a scale that ends at scale_end. Weights beyond an end take its colour; NaN is kNanColour.
Colour colour_of(float weight, double scale_end);

// "#rrggbb"
std::string to_hex(Colour colour);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_COLOUR_MAP_H_
