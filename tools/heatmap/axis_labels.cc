#include "tools/heatmap/axis_labels.h"

#include <algorithm>
#include <cstddef>

#include "tools/heatmap/font.h"
#include "tools/heatmap/text.h"

namespace attend::tools {
namespace {

constexpr std::int64_t kLabelSpacing = 2;  // between a label and its cell's edge, or its neighbour
constexpr std::int64_t kIndexSpacing = 6;  // between indices side by side, or 10 20 would read as 1020
constexpr std::int64_t kSmallCell = 10;    // pixels; larger ones show by themselves where their middle is

// The least of 1, 2, 5, 10, 20, 50, ... labels apart that leaves so many pixels from label to label.
std::int64_t step_for(const Axis& axis, std::int64_t pixels) {
  // Two rows of one cell are no pixels apart: where cells are shared, the distance is short by up to one cell.
  const std::int64_t needed = axis.per_cell > 1 ? pixels + axis.cell_size : pixels;
  const auto fits = [&](std::int64_t step) { return step * axis.cell_size >= needed * axis.per_cell; };
  for (std::int64_t power = 1;; power *= 10) {
    for (const std::int64_t mantissa : {1, 2, 5}) {
      if (fits(mantissa * power)) return mantissa * power;
    }
  }
}

AxisLabels every(std::int64_t step, const Axis& axis) {
  AxisLabels kept{.labels = {}, .has_ticks = step > 1 || axis.cell_size < kSmallCell};
  for (std::int64_t i = 0; i < axis.count; i += step) {
    const std::string text = axis.labels.empty() ? to_text(i) : axis.labels[static_cast<std::size_t>(i)];
    AxisLabel label{.text = elided(drawable(text), FontSize::kLabel, kMaxLabelWidth), .middle = axis.middle_of(i)};
    label.width = width_of(FontSize::kLabel, label.text);
    kept.labels.push_back(std::move(label));
  }
  return kept;
}

// A character, with the marks and joiners after it that make it one sign.
bool is_one_character(const AxisLabel& label) {
  const auto is_visible = [](char32_t code) { return advance_of(FontSize::kLabel, code) > 0; };
  return std::ranges::count_if(label.text, is_visible) <= 1;
}

}  // namespace

AxisLabels row_labels_of(const Axis& axis) {
  return every(step_for(axis, metrics_of(FontSize::kLabel).line_height()), axis);
}

AxisLabels column_labels_of(const Axis& axis) {
  if (axis.labels.empty()) {
    const std::u32string widest(to_text(axis.count - 1).size(), U'0');
    return every(step_for(axis, width_of(FontSize::kLabel, widest) + kIndexSpacing), axis);
  }
  const std::int64_t step = step_for(axis, metrics_of(FontSize::kLabel).line_height());
  AxisLabels kept = every(step, axis);
  const std::int64_t room = step * axis.cell_size / axis.per_cell - kLabelSpacing;
  const bool rotate_words = std::ranges::any_of(
      kept.labels, [&](const AxisLabel& label) { return !is_one_character(label) && label.width > room; });
  for (AxisLabel& label : kept.labels) {
    label.rotated = label.width > room || (rotate_words && !is_one_character(label));
  }
  return kept;
}

}  // namespace attend::tools
