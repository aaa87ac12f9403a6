// Where everything in a picture goes: whole pixels, origin at the upper left, y downwards. Both renderers draw exactly
// this.
#ifndef ATTEND_TOOLS_HEATMAP_LAYOUT_H_
#define ATTEND_TOOLS_HEATMAP_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/heatmap/font.h"
#include "tools/heatmap/heatmap.h"
#include "tools/heatmap/scale.h"

namespace attend::tools {

struct Box {
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t right() const { return x + width; }
  std::int64_t bottom() const { return y + height; }
  bool operator==(const Box&) const = default;
};

enum class Anchor { kStart, kMiddle, kEnd };  // which part of the text is at its anchor point

struct TextRun {
  std::u32string text;  // safe to draw: from drawable()
  FontSize size = FontSize::kLabel;
  Anchor anchor = Anchor::kStart;
  bool rotated = false;  // by 90 degrees: reads upwards
  std::int64_t x = 0;    // the anchor point, on the baseline
  std::int64_t y = 0;
  Box box;  // the room it takes
};

struct Layout {
  std::int64_t width = 0;
  std::int64_t height = 0;

  // All panels have the same cells. A cell shows the largest of rows_per_cell x columns_per_cell weights.
  std::int64_t cell_rows = 0;
  std::int64_t cell_columns = 0;
  std::int64_t rows_per_cell = 1;
  std::int64_t columns_per_cell = 1;
  std::int64_t cell_width = 0;  // the distance from cell to cell
  std::int64_t cell_height = 0;
  std::int64_t cell_gap = 0;  // the part of that which stays paper: lines between cells that are large enough for it

  std::vector<Box> panels;  // the cells of each, in order
  std::vector<Box> ticks;   // thin filled boxes, of the axes and of the bar
  std::vector<TextRun> texts;
  Scale scale;
  Box bar;
  std::optional<Box> nan_swatch;  // where a weight is NaN

  Box cell_box(const Box& panel, std::int64_t row, std::int64_t column) const {
    return {panel.x + column * cell_width, panel.y + row * cell_height, cell_width - cell_gap, cell_height - cell_gap};
  }
};

// heatmap must be valid (survey.h).
Layout layout_of(const Heatmap& heatmap);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_LAYOUT_H_
