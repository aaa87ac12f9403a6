#include "tools/heatmap/survey.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "attend/error.h"

namespace attend::tools {
namespace {

void check_labels(const char* what, const std::vector<std::string>& labels, const char* of_what,
                  std::int64_t expected) {
  if (labels.empty() || labels.size() == static_cast<std::size_t>(expected)) return;
  throw Error(std::string("heatmap: ") + std::to_string(labels.size()) + " " + what + ", but the weights have " +
              std::to_string(expected) + " " + of_what);
}

}  // namespace

void validate(const Heatmap& heatmap) {
  // So that no product of sizes overflows; a panel of that size does not fit into memory anyway.
  constexpr std::int64_t kMaxSide = std::numeric_limits<std::int32_t>::max();
  const std::string sizes = std::to_string(heatmap.rows) + " x " + std::to_string(heatmap.columns);
  if (heatmap.rows < 1 || heatmap.columns < 1 || heatmap.rows > kMaxSide || heatmap.columns > kMaxSide) {
    throw Error("heatmap: rows x columns are " + sizes + ", expected 1 to " + std::to_string(kMaxSide) + " each");
  }
  if (heatmap.panels.empty() || heatmap.panels.size() > static_cast<std::size_t>(kMaxPanels)) {
    throw Error("heatmap: got " + std::to_string(heatmap.panels.size()) + " panels, expected 1 to " +
                std::to_string(kMaxPanels));
  }
  const std::int64_t expected = heatmap.rows * heatmap.columns;
  for (std::size_t i = 0; i < heatmap.panels.size(); ++i) {
    const std::size_t size = heatmap.panels[i].weights.size();
    if (size == static_cast<std::size_t>(expected)) continue;
    throw Error("heatmap: panel " + std::to_string(i) + " has " + std::to_string(size) + " weights, expected " +
                std::to_string(expected) + " (" + sizes + ")");
  }
  check_labels("row labels", heatmap.row_labels, "rows", heatmap.rows);
  check_labels("column labels", heatmap.column_labels, "columns", heatmap.columns);
}

Survey survey(const Heatmap& heatmap) {
  constexpr float kRounding = 1e-5F;  // rows sum to 1 within 1e-6: a lone weight may exceed 1 by that
  Survey result;
  for (const Panel& panel : heatmap.panels) {
    for (const float weight : panel.weights) {
      if (std::isnan(weight)) {
        result.has_nan = true;
        continue;
      }
      result.largest = std::max(result.largest, static_cast<double>(weight));
      result.has_outside = result.has_outside || weight < -kRounding || weight > 1 + kRounding;
    }
  }
  return result;
}

std::vector<float> block_maxima(const Heatmap& heatmap, const Panel& panel, std::int64_t rows_per_cell,
                                std::int64_t columns_per_cell) {
  const std::int64_t cell_rows = (heatmap.rows + rows_per_cell - 1) / rows_per_cell;
  const std::int64_t cell_columns = (heatmap.columns + columns_per_cell - 1) / columns_per_cell;
  std::vector<float> maxima(static_cast<std::size_t>(cell_rows * cell_columns),
                            -std::numeric_limits<float>::infinity());
  const float* weight = panel.weights.data();
  for (std::int64_t row = 0; row < heatmap.rows; ++row) {
    float* const cells = maxima.data() + row / rows_per_cell * cell_columns;
    for (std::int64_t column = 0; column < heatmap.columns; ++column, ++weight) {
      float& cell = cells[column / columns_per_cell];
      // A cell that is NaN already stays so: comparisons with it are false.
      if (std::isnan(*weight) || *weight > cell) cell = *weight;
    }
  }
  return maxima;
}

}  // namespace attend::tools
