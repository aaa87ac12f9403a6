// Pictures of attention weights: who looks where, one panel per head.
//
// Simplest correct call:
//   attend::tools::Heatmap heatmap{.panels = {{.title = "head 0", .weights = weights}}, .rows = 10, .columns = 17};
//   attend::io::save_bytes("alignment.svg", attend::tools::render_svg(heatmap));
// Recommended: row_labels and column_labels too, so that the picture says which word looks at which.
#ifndef ATTEND_TOOLS_HEATMAP_HEATMAP_H_
#define ATTEND_TOOLS_HEATMAP_HEATMAP_H_

#include <cstdint>
#include <string>
#include <vector>

namespace attend::tools {

struct Panel {
  std::string title;           // may be empty
  std::vector<float> weights;  // rows * columns, row-major
};

// All text is UTF-8; bytes that are not, control characters and what XML forbids show as U+FFFD.
struct Heatmap {
  std::string title;                       // may be empty
  std::vector<Panel> panels;               // 1 to kMaxPanels
  std::int64_t rows = 0;                   // at least 1
  std::int64_t columns = 0;                // at least 1
  std::vector<std::string> row_labels;     // rows of them; none: indices
  std::vector<std::string> column_labels;  // columns of them; none: indices
  std::string row_axis = "queries";
  std::string column_axis = "keys";
};

inline constexpr std::int64_t kMaxPanels = 1024;  // heads of the largest models: 128

// What both pictures show: every weight as a colour of viridis (perceptually uniform, readable by the colour-blind).
// The scale starts at 0 and ends at the largest weight of all panels, rounded up to a short number, at most 1; the
// colour bar states it. Weights outside [0, 1] take the colour of the nearer end; NaN is orange, and the legend says
// both.
//
// Sizes: cells are square and as large as a screen allows, from 28 pixels down to 1; labels are thinned so that none
// overlaps another. Where even one pixel per cell would exceed 8192 pixels a side, the largest weight of every block of
// cells is drawn (a mean would fade the sharp alignments that one looks for), and the legend says how large the blocks
// are.
//
// Same heatmap, same bytes (PNG: for one version of libpng and zlib). Thread-safe.
// Errors: attend::Error for sizes that do not agree, naming both, and for no panel or too many.

// An SVG document without outside references. Up to 4096 cells are vector shapes, with a tooltip each; more are
// embedded as an image per panel.
std::string render_svg(const Heatmap& heatmap);

// The bytes of a PNG file: 8-bit RGB, 96 dpi. Its letters are embedded (font.h lists them): CJK, emoji and combining
// marks show as boxes; the SVG has no such limit. Error also if libpng fails.
std::string render_png(const Heatmap& heatmap);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_HEATMAP_H_
