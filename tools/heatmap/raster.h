// A picture in memory, and what is drawn into it. All drawing is clipped to the picture.
#ifndef ATTEND_TOOLS_HEATMAP_RASTER_H_
#define ATTEND_TOOLS_HEATMAP_RASTER_H_

#include <cstdint>
#include <vector>

#include "tools/heatmap/colour_map.h"
#include "tools/heatmap/layout.h"

namespace attend::tools {

class Raster {
 public:
  // All paper.
  Raster(std::int64_t width, std::int64_t height);

  std::int64_t width() const { return width_; }
  std::int64_t height() const { return height_; }
  // 3 * width bytes: red, green, blue from left to right.
  const std::uint8_t* row(std::int64_t y) const { return pixels_.data() + y * width_ * 3; }

  void fill(const Box& box, Colour colour);
  void draw(const TextRun& run, Colour colour);

 private:
  // coverage of 15 parts: 0 leaves the pixel as it is.
  void blend(std::int64_t x, std::int64_t y, int coverage, Colour colour);

  std::int64_t width_;
  std::int64_t height_;
  std::vector<std::uint8_t> pixels_;
};

// The cells of one panel, its first cell at the upper left of where.
void draw_cells(const Heatmap& heatmap, const Panel& panel, const Layout& layout, const Box& where, Raster& raster);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_RASTER_H_
