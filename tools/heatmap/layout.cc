#include "tools/heatmap/layout.h"

#include <algorithm>
#include <cmath>

#include "tools/heatmap/axis_labels.h"
#include "tools/heatmap/cell_plan.h"
#include "tools/heatmap/survey.h"
#include "tools/heatmap/text.h"
#include "tools/heatmap/text_run.h"

namespace attend::tools {
namespace {

// Pixels.
constexpr std::int64_t kMargin = 18;     // around everything
constexpr std::int64_t kPanelGap = 26;   // between neighbouring panels
constexpr std::int64_t kTitleGap = 12;   // below the title of the picture
constexpr std::int64_t kLegendGap = 18;  // above the legend
constexpr std::int64_t kLineGap = 2;     // between the lines of the legend
// From cells to their labels and to the panel's title. Half a line of a label hangs over a cell of one pixel: less than
// this gap, so row labels meet neither title nor column labels.
constexpr std::int64_t kCellGap = 9;
constexpr std::int64_t kTickLength = 4;
constexpr std::int64_t kTickGap = 2;         // from cells to ticks; ticks end before the labels
constexpr std::int64_t kAxisNameGap = 5;     // from labels to the axis name
constexpr std::int64_t kMinTitleRoom = 640;  // titles may be wider than small pictures; longer ones are cut
constexpr std::int64_t kMinAxisNameRoom = 160;
constexpr std::int64_t kBarWidth = 320;  // five steps of numbers like 2.5e-06
constexpr std::int64_t kBarHeight = 14;
constexpr std::int64_t kSwatchGap = 6;

constexpr FontSize kLabel = FontSize::kLabel;
constexpr FontSize kTitle = FontSize::kTitle;

std::int64_t line_height(FontSize size) { return metrics_of(size).line_height(); }
std::int64_t ascent(FontSize size) { return metrics_of(size).ascent; }

// What a panel needs, the same for all: cells and the room on the four sides of them.
struct Slot {
  Axis rows;
  Axis columns;
  AxisLabels row_labels;
  AxisLabels column_labels;
  std::u32string row_axis;
  std::u32string column_axis;
  std::vector<std::u32string> titles;

  std::int64_t label_left = 0;    // from the cells to the left edge of the widest row label
  std::int64_t label_bottom = 0;  // from the cells to the lower edge of the longest column label
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;

  std::int64_t width() const { return left + columns.length() + right; }
  std::int64_t height() const { return top + rows.length() + bottom; }
};

// How far something of this width, centred over a length, sticks out on either side.
std::int64_t overhang(std::int64_t width, std::int64_t length) {
  return std::max<std::int64_t>(0, (width - length + 1) / 2);
}

Slot measure_slot(const Heatmap& heatmap, const CellPlan& plan) {
  Slot slot{.rows = {heatmap.row_labels, heatmap.rows, plan.cell_height, plan.rows_per_cell, plan.cell_gap},
            .columns = {heatmap.column_labels, heatmap.columns, plan.cell_width, plan.columns_per_cell, plan.cell_gap},
            .row_labels = {},
            .column_labels = {},
            .row_axis = {},
            .column_axis = {},
            .titles = {}};
  slot.row_labels = row_labels_of(slot.rows);
  slot.column_labels = column_labels_of(slot.columns);
  const std::int64_t cells_width = slot.columns.length();
  const std::int64_t cells_height = slot.rows.length();
  slot.row_axis = elided(drawable(heatmap.row_axis), kLabel, std::max(kMinAxisNameRoom, cells_height));
  slot.column_axis = elided(drawable(heatmap.column_axis), kLabel, std::max(kMinAxisNameRoom, cells_width));

  // What is centred over or under the cells may be wider than they are.
  std::int64_t left_overhang = overhang(width_of(kLabel, slot.column_axis), cells_width);
  std::int64_t right_overhang = left_overhang;
  std::int64_t title_height = 0;
  for (const Panel& panel : heatmap.panels) {
    slot.titles.push_back(elided(drawable(panel.title), kLabel, std::max(kMinAxisNameRoom, cells_width)));
    const std::int64_t over = overhang(width_of(kLabel, slot.titles.back()), cells_width);
    left_overhang = std::max(left_overhang, over);
    right_overhang = std::max(right_overhang, over);
    if (!panel.title.empty()) title_height = line_height(kLabel) + kCellGap;
  }
  std::int64_t column_label_height = 0;
  for (const AxisLabel& label : slot.column_labels.labels) {
    const std::int64_t breadth = label.rotated ? line_height(kLabel) : label.width;
    left_overhang = std::max(left_overhang, breadth - breadth / 2 - label.middle);
    right_overhang = std::max(right_overhang, breadth - breadth / 2 - (cells_width - label.middle));
    column_label_height = std::max(column_label_height, label.rotated ? label.width : line_height(kLabel));
  }
  for (const AxisLabel& label : slot.row_labels.labels) {
    slot.label_left = std::max(slot.label_left, kCellGap + label.width);
  }
  slot.label_left = std::max(slot.label_left, left_overhang);
  slot.label_bottom = kCellGap + column_label_height;

  // The row axis' name stands left of all that, alone, so only its length matters above and below.
  const std::int64_t name_overhang = overhang(width_of(kLabel, slot.row_axis), cells_height);
  const std::int64_t half_line = line_height(kLabel) / 2 + 1;  // of the first and last row label
  slot.left = slot.label_left + (slot.row_axis.empty() ? 0 : kAxisNameGap + line_height(kLabel));
  slot.right = right_overhang;
  slot.top = std::max({title_height, name_overhang, half_line});
  slot.bottom = std::max({slot.label_bottom + (slot.column_axis.empty() ? 0 : kAxisNameGap + line_height(kLabel)),
                          name_overhang, half_line});
  return slot;
}

void place_row_axis(const Slot& slot, const Box& cells, Layout& layout) {
  for (const AxisLabel& label : slot.row_labels.labels) {
    const std::int64_t middle = cells.y + label.middle;
    layout.texts.push_back(
        horizontal_text(label.text, kLabel, Anchor::kEnd, cells.x - kCellGap, middle + half_cap_height(kLabel)));
    if (slot.row_labels.has_ticks) layout.ticks.push_back({cells.x - kTickGap - kTickLength, middle, kTickLength, 1});
  }
  if (slot.row_axis.empty()) return;
  const std::int64_t baseline = cells.x - slot.label_left - kAxisNameGap - metrics_of(kLabel).descent;
  layout.texts.push_back(rotated_text(slot.row_axis, kLabel, Anchor::kMiddle, baseline, cells.y + cells.height / 2));
}

void place_column_axis(const Slot& slot, const Box& cells, Layout& layout) {
  for (const AxisLabel& label : slot.column_labels.labels) {
    const std::int64_t middle = cells.x + label.middle;
    const std::int64_t top = cells.bottom() + kCellGap;
    layout.texts.push_back(label.rotated
                               ? rotated_text(label.text, kLabel, Anchor::kEnd, middle + half_cap_height(kLabel), top)
                               : horizontal_text(label.text, kLabel, Anchor::kMiddle, middle, top + ascent(kLabel)));
    if (slot.column_labels.has_ticks) layout.ticks.push_back({middle, cells.bottom() + kTickGap, 1, kTickLength});
  }
  if (slot.column_axis.empty()) return;
  layout.texts.push_back(horizontal_text(slot.column_axis, kLabel, Anchor::kMiddle, cells.x + cells.width / 2,
                                         cells.bottom() + slot.label_bottom + kAxisNameGap + ascent(kLabel)));
}

// Panels in rows, from (x, y) on.
void place_panels(const Slot& slot, const CellPlan& plan, std::int64_t x, std::int64_t y, Layout& layout) {
  for (std::size_t i = 0; i < slot.titles.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const Box cells = {x + index % plan.grid_columns * (slot.width() + kPanelGap) + slot.left,
                       y + index / plan.grid_columns * (slot.height() + kPanelGap) + slot.top, slot.columns.length(),
                       slot.rows.length()};
    layout.panels.push_back(cells);
    if (!slot.titles[i].empty()) {
      layout.texts.push_back(horizontal_text(slot.titles[i], kLabel, Anchor::kMiddle, cells.x + cells.width / 2,
                                             cells.y - kCellGap - metrics_of(kLabel).descent));
    }
    place_row_axis(slot, cells, layout);
    place_column_axis(slot, cells, layout);
  }
}

struct LegendLine {
  std::u32string text;
  bool has_swatch = false;
};

std::vector<LegendLine> legend_lines(const Survey& facts, const Layout& layout) {
  std::vector<LegendLine> lines;
  const auto add = [&lines](const std::string& text) { lines.push_back({.text = drawable(text)}); };
  const bool shortened = layout.scale.end < 1;
  add(shortened ? "attention weight (the scale ends at " + layout.scale.ticks.back().label +
                      ": the largest weight, rounded up)"
                : "attention weight");
  if (facts.has_nan) lines.push_back({.text = U"not a number (NaN)", .has_swatch = true});
  if (facts.has_outside) add("weights outside 0 to 1 are drawn as 0 or 1");
  if (layout.rows_per_cell * layout.columns_per_cell > 1) {
    add("every cell shows the largest of " + to_text(layout.rows_per_cell) + " × " + to_text(layout.columns_per_cell) +
        " weights");
  }
  return lines;
}

std::int64_t swatch_room(const LegendLine& line) { return line.has_swatch ? kBarHeight + kSwatchGap : 0; }

std::int64_t width_of_legend(const std::vector<LegendLine>& lines, const Scale& scale) {
  // Half of the first and last number stick out of the bar.
  std::int64_t width = kBarWidth + 2 * width_of(kLabel, drawable(scale.ticks.back().label));
  for (const LegendLine& line : lines) width = std::max(width, width_of(kLabel, line.text) + swatch_room(line));
  return width;
}

// The colour bar, its numbers and what else there is to say, centred; returns where it ends.
std::int64_t place_legend(const std::vector<LegendLine>& lines, std::int64_t centre, std::int64_t y, Layout& layout) {
  layout.bar = {centre - kBarWidth / 2, y, kBarWidth, kBarHeight};
  y = layout.bar.bottom() + kTickGap;
  for (const Tick& tick : layout.scale.ticks) {
    const std::int64_t offset = std::llround(tick.position * static_cast<double>(kBarWidth - 1));
    const std::int64_t x = layout.bar.x + offset;
    layout.ticks.push_back({x, y, 1, kTickLength});
    layout.texts.push_back(
        horizontal_text(drawable(tick.label), kLabel, Anchor::kMiddle, x, y + kTickLength + ascent(kLabel)));
  }
  y += kTickLength + line_height(kLabel) + kLineGap;
  for (const LegendLine& line : lines) {
    const std::int64_t left = centre - (width_of(kLabel, line.text) + swatch_room(line)) / 2;
    const std::int64_t baseline = y + ascent(kLabel);
    if (line.has_swatch) {
      const std::int64_t middle = baseline - half_cap_height(kLabel);
      layout.nan_swatch = Box{left, middle - kBarHeight / 2, kBarHeight, kBarHeight};
    }
    layout.texts.push_back(horizontal_text(line.text, kLabel, Anchor::kStart, left + swatch_room(line), baseline));
    y += line_height(kLabel) + kLineGap;
  }
  return y - kLineGap;
}

}  // namespace

Layout layout_of(const Heatmap& heatmap) {
  const CellPlan plan = plan_cells(heatmap);
  const Slot slot = measure_slot(heatmap, plan);
  const Survey facts = survey(heatmap);
  Layout layout;
  layout.rows_per_cell = plan.rows_per_cell;
  layout.columns_per_cell = plan.columns_per_cell;
  layout.cell_rows = (heatmap.rows + plan.rows_per_cell - 1) / plan.rows_per_cell;
  layout.cell_columns = (heatmap.columns + plan.columns_per_cell - 1) / plan.columns_per_cell;
  layout.cell_width = plan.cell_width;
  layout.cell_height = plan.cell_height;
  layout.cell_gap = plan.cell_gap;
  layout.scale = scale_for(facts.largest);

  const std::vector<LegendLine> lines = legend_lines(facts, layout);
  const std::int64_t grid_width = plan.grid_columns * (slot.width() + kPanelGap) - kPanelGap;
  const std::int64_t grid_height = plan.grid_rows * (slot.height() + kPanelGap) - kPanelGap;
  const std::u32string title = elided(drawable(heatmap.title), kTitle, std::max(kMinTitleRoom, grid_width));
  const std::int64_t inner_width =
      std::max({grid_width, width_of_legend(lines, layout.scale), width_of(kTitle, title)});
  layout.width = inner_width + 2 * kMargin;
  const std::int64_t centre = layout.width / 2;

  std::int64_t y = kMargin;
  if (!title.empty()) {
    layout.texts.push_back(horizontal_text(title, kTitle, Anchor::kMiddle, centre, y + ascent(kTitle)));
    y += line_height(kTitle) + kTitleGap;
  }
  place_panels(slot, plan, centre - grid_width / 2, y, layout);
  y += grid_height + kLegendGap;
  layout.height = place_legend(lines, centre, y, layout) + kMargin;
  return layout;
}

}  // namespace attend::tools
