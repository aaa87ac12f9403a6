// How large cells are and how panels are arranged.
#ifndef ATTEND_TOOLS_HEATMAP_CELL_PLAN_H_
#define ATTEND_TOOLS_HEATMAP_CELL_PLAN_H_

#include <cstdint>

#include "tools/heatmap/heatmap.h"

namespace attend::tools {

struct CellPlan {
  std::int64_t grid_columns = 1;  // of panels
  std::int64_t grid_rows = 1;
  std::int64_t cell_width = 1;  // pixels from cell to cell
  std::int64_t cell_height = 1;
  std::int64_t cell_gap = 0;
  std::int64_t rows_per_cell = 1;
  std::int64_t columns_per_cell = 1;
};

CellPlan plan_cells(const Heatmap& heatmap);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_CELL_PLAN_H_
