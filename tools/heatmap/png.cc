#include "tools/heatmap/colour_map.h"
#include "tools/heatmap/heatmap.h"
#include "tools/heatmap/layout.h"
#include "tools/heatmap/png_file.h"
#include "tools/heatmap/raster.h"
#include "tools/heatmap/survey.h"

namespace attend::tools {
namespace {

void draw_bar(const Box& bar, Raster& raster) {
  for (std::int64_t x = 0; x < bar.width; ++x) {
    const auto fraction = static_cast<float>(x) / static_cast<float>(bar.width - 1);
    raster.fill({bar.x + x, bar.y, 1, bar.height}, colour_of(fraction, 1.0));
  }
}

}  // namespace

std::string render_png(const Heatmap& heatmap) {
  validate(heatmap);
  const Layout layout = layout_of(heatmap);
  Raster raster(layout.width, layout.height);
  for (std::size_t i = 0; i < heatmap.panels.size(); ++i) {
    draw_cells(heatmap, heatmap.panels[i], layout, layout.panels[i], raster);
  }
  draw_bar(layout.bar, raster);
  if (layout.nan_swatch) raster.fill(*layout.nan_swatch, kNanColour);
  for (const Box& tick : layout.ticks) raster.fill(tick, kInk);
  for (const TextRun& text : layout.texts) raster.draw(text, kInk);
  return to_png(raster);
}

}  // namespace attend::tools
