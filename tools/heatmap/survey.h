// What is known about a heatmap before it is laid out: that its sizes agree, and what its weights are like.
#ifndef ATTEND_TOOLS_HEATMAP_SURVEY_H_
#define ATTEND_TOOLS_HEATMAP_SURVEY_H_

#include <cstdint>
#include <vector>

#include "tools/heatmap/heatmap.h"

namespace attend::tools {

// Throws Error, naming both sizes, if a panel or the labels do not have as many entries as rows and columns say.
void validate(const Heatmap& heatmap);

struct Survey {
  double largest = 0;  // of all weights that are numbers
  bool has_nan = false;
  bool has_outside = false;  // of [0, 1] by more than rounding
};

Survey survey(const Heatmap& heatmap);

// The largest weight of each block of rows_per_cell x columns_per_cell weights, row-major; NaN where a block has one.
// Blocks at the lower and right edge may be smaller.
std::vector<float> block_maxima(const Heatmap& heatmap, const Panel& panel, std::int64_t rows_per_cell,
                                std::int64_t columns_per_cell);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_SURVEY_H_
