#include "tools/heatmap/cell_plan.h"

#include <algorithm>
#include <cmath>

namespace attend::tools {
namespace {

// All in pixels. A picture that needs no more fits on a screen of 1920 x 1080 with its labels.
constexpr std::int64_t kScreenWidth = 1600;
constexpr std::int64_t kScreenHeight = 840;
constexpr std::int64_t kMaxCell = 28;  // larger ones show nothing more
constexpr std::int64_t kGapFrom = 10;  // cells from this size on are separated by a line

// Labels that a caller gives want to be read, each of them: cells grow to a line of text (17) and the gap, even beyond
// the screen, as long as all panels together stay within kLabelledSide.
constexpr std::int64_t kLabelledCell = 18;
constexpr std::int64_t kLabelledSide = 4000;

constexpr std::int64_t kMinPanelSide = 24;   // so that a single row is not a hair line
constexpr std::int64_t kMaxSide = 8192;      // of all panels together: some viewers take no more
constexpr std::int64_t kMinPanelLimit = 64;  // a panel may have this even where that exceeds kMaxSide
constexpr std::int64_t kLabelRoom = 90;      // a guess at what surrounds a panel, to compare arrangements

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Of square cells, for so many columns and rows of panels.
std::int64_t cell_side(const Heatmap& heatmap, std::int64_t grid_columns, std::int64_t grid_rows) {
  const std::int64_t all_columns = heatmap.columns * grid_columns;
  const std::int64_t all_rows = heatmap.rows * grid_rows;
  const std::int64_t fitting = std::min(kScreenWidth / all_columns, kScreenHeight / all_rows);
  const bool labelled = !heatmap.row_labels.empty() || !heatmap.column_labels.empty();
  const bool can_grow = std::max(all_columns, all_rows) * kLabelledCell <= kLabelledSide;
  return std::clamp<std::int64_t>(fitting, labelled && can_grow ? kLabelledCell : 1, kMaxCell);
}

// How far an arrangement is from a sheet of paper on its side, plus what its empty places cost.
double imbalance(const Heatmap& heatmap, std::int64_t grid_columns) {
  const auto num_panels = static_cast<std::int64_t>(heatmap.panels.size());
  const std::int64_t grid_rows = ceil_div(num_panels, grid_columns);
  const std::int64_t side = cell_side(heatmap, grid_columns, grid_rows);
  const auto width = static_cast<double>(grid_columns * (heatmap.columns * side + kLabelRoom));
  const auto height = static_cast<double>(grid_rows * (heatmap.rows * side + kLabelRoom));
  const double empty = static_cast<double>(grid_columns * grid_rows - num_panels) / static_cast<double>(num_panels);
  return std::abs(std::log(width / height / std::sqrt(2.0))) + empty;
}

std::int64_t choose_grid_columns(const Heatmap& heatmap) {
  std::int64_t best = 1;
  double least = imbalance(heatmap, 1);
  for (std::int64_t candidate = 2; candidate <= static_cast<std::int64_t>(heatmap.panels.size()); ++candidate) {
    if (const double cost = imbalance(heatmap, candidate); cost < least) {
      least = cost;
      best = candidate;
    }
  }
  return best;
}

// The size of a cell along one axis and how many weights share it.
struct Side {
  std::int64_t cell;
  std::int64_t per_cell;
};

Side side_for(std::int64_t count, std::int64_t square, std::int64_t panels_along) {
  const std::int64_t limit = std::max(kMinPanelLimit, kMaxSide / panels_along);
  if (count * square > limit) return {1, ceil_div(count, limit)};
  return {std::max(square, ceil_div(kMinPanelSide, count)), 1};
}

}  // namespace

CellPlan plan_cells(const Heatmap& heatmap) {
  CellPlan plan;
  plan.grid_columns = choose_grid_columns(heatmap);
  plan.grid_rows = ceil_div(static_cast<std::int64_t>(heatmap.panels.size()), plan.grid_columns);
  const std::int64_t square = cell_side(heatmap, plan.grid_columns, plan.grid_rows);
  const Side width = side_for(heatmap.columns, square, plan.grid_columns);
  const Side height = side_for(heatmap.rows, square, plan.grid_rows);
  plan.cell_width = width.cell;
  plan.columns_per_cell = width.per_cell;
  plan.cell_height = height.cell;
  plan.rows_per_cell = height.per_cell;
  plan.cell_gap = std::min(plan.cell_width, plan.cell_height) >= kGapFrom ? 1 : 0;
  return plan;
}

}  // namespace attend::tools
