// Which labels of an axis are drawn, and how: as many as fit without overlapping.
#ifndef ATTEND_TOOLS_HEATMAP_AXIS_LABELS_H_
#define ATTEND_TOOLS_HEATMAP_AXIS_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace attend::tools {

// An axis as the labels see it.
struct Axis {
  const std::vector<std::string>& labels;  // none: indices
  std::int64_t count = 0;                  // rows or columns
  std::int64_t cell_size = 0;              // pixels from cell to cell
  std::int64_t per_cell = 1;               // rows or columns that share a cell
  std::int64_t cell_gap = 0;

  // Middle of the cell of a row or column, in pixels from the first cell.
  std::int64_t middle_of(std::int64_t index) const { return index / per_cell * cell_size + (cell_size - cell_gap) / 2; }
  std::int64_t length() const { return (count + per_cell - 1) / per_cell * cell_size - cell_gap; }
};

struct AxisLabel {
  std::u32string text;
  std::int64_t middle = 0;  // Axis::middle_of
  std::int64_t width = 0;   // of the text, unrotated
  bool rotated = false;
};

struct AxisLabels {
  std::vector<AxisLabel> labels;
  bool has_ticks = false;  // where cells are too small to see which one a label is for
};

AxisLabels row_labels_of(const Axis& axis);

// A label longer than its cell is rotated, and with it every other label but those of one character, which read better
// upright: words then look alike, and "," or a digit stands as it is written. Indices are thinned instead.
AxisLabels column_labels_of(const Axis& axis);

// Longer labels end in an ellipsis (pixels).
inline constexpr std::int64_t kMaxLabelWidth = 160;

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_AXIS_LABELS_H_
