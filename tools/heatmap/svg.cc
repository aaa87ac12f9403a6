#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tools/heatmap/colour_map.h"
#include "tools/heatmap/heatmap.h"
#include "tools/heatmap/layout.h"
#include "tools/heatmap/png_file.h"
#include "tools/heatmap/raster.h"
#include "tools/heatmap/survey.h"
#include "tools/heatmap/text.h"

namespace attend::tools {
namespace {

// Shapes with tooltips up to here: 4096 take half a megabyte, which every viewer opens at once. More become an image.
constexpr std::int64_t kMaxShapes = 4096;

// DejaVu first, whose widths the layout knows; the others are no wider.
constexpr std::string_view kFonts = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

std::string attribute(std::string_view name, std::int64_t value) {
  return " " + std::string(name) + "=\"" + to_text(value) + "\"";
}

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + std::string(value) + "\"";
}

std::string box_attributes(const Box& box) {
  return attribute("x", box.x) + attribute("y", box.y) + attribute("width", box.width) +
         attribute("height", box.height);
}

std::string filled(const Box& box, std::string_view fill) {
  return "<rect" + box_attributes(box) + attribute("fill", fill) + "/>\n";
}

std::string to_base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8U | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) text += i + j <= bytes.size() ? kDigits[group >> (18U - 6U * j) & 63U] : '=';
  }
  return text;
}

std::string label_at(const std::vector<std::string>& labels, std::int64_t index) {
  return labels.empty() ? to_text(index) : to_xml(drawable(labels[static_cast<std::size_t>(index)]));
}

// Every cell a shape whose tooltip says what it is: "queries 2, keys Montag: 0.8713".
std::string cells_as_shapes(const Heatmap& heatmap, const Panel& panel, const Layout& layout, const Box& where) {
  constexpr int kTooltipDigits = 4;
  const std::string row_axis = to_xml(drawable(heatmap.row_axis)) + " ";
  const std::string column_axis = to_xml(drawable(heatmap.column_axis)) + " ";
  std::string svg = "<g shape-rendering=\"crispEdges\">\n";
  auto weight = panel.weights.begin();
  for (std::int64_t row = 0; row < heatmap.rows; ++row) {
    std::string row_text = row_axis;
    row_text += label_at(heatmap.row_labels, row) + ", " + column_axis;
    for (std::int64_t column = 0; column < heatmap.columns; ++column, ++weight) {
      svg += "<rect" + box_attributes(layout.cell_box(where, row, column));
      svg += attribute("fill", to_hex(colour_of(*weight, layout.scale.end)));
      svg += "><title>" + row_text + label_at(heatmap.column_labels, column) + ": ";
      svg += to_text(static_cast<double>(*weight), kTooltipDigits) + "</title></rect>\n";
    }
  }
  return svg + "</g>\n";
}

// At full size rather than a pixel per cell: viewers that smooth what they enlarge then blur nothing.
std::string cells_as_image(const Heatmap& heatmap, const Panel& panel, const Layout& layout, const Box& where) {
  Raster raster(where.width, where.height);
  draw_cells(heatmap, panel, layout, {0, 0, where.width, where.height}, raster);
  return "<image" + box_attributes(where) + " style=\"image-rendering:pixelated\" href=\"data:image/png;base64," +
         to_base64(to_png(raster)) + "\"/>\n";
}

std::string colour_bar(const Box& bar) {
  const auto stops = control_points();
  std::string svg = "<defs><linearGradient id=\"weights\">\n";
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const double offset = static_cast<double>(i) / static_cast<double>(stops.size() - 1);
    svg += "<stop" + attribute("offset", to_text(offset, 6)) + attribute("stop-color", to_hex(stops[i])) + "/>\n";
  }
  return svg + "</linearGradient></defs>\n" + filled(bar, "url(#weights)");
}

std::string text_element(const TextRun& run) {
  std::string svg = "<text" + attribute("x", run.x) + attribute("y", run.y);
  if (run.anchor != Anchor::kStart) svg += attribute("text-anchor", run.anchor == Anchor::kEnd ? "end" : "middle");
  if (run.size == FontSize::kTitle) svg += attribute("font-size", metrics_of(run.size).em);
  if (run.rotated) svg += attribute("transform", "rotate(-90 " + to_text(run.x) + " " + to_text(run.y) + ")");
  return svg + ">" + to_xml(run.text) + "</text>\n";
}

}  // namespace

std::string render_svg(const Heatmap& heatmap) {
  validate(heatmap);
  const Layout layout = layout_of(heatmap);
  // One cell per weight, and few of them.
  const std::int64_t num_weights = heatmap.rows * heatmap.columns * static_cast<std::int64_t>(heatmap.panels.size());
  const bool as_shapes = num_weights <= kMaxShapes && layout.rows_per_cell * layout.columns_per_cell == 1;

  std::string svg =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"" +
      attribute("width", layout.width) + attribute("height", layout.height) +
      attribute("viewBox", "0 0 " + to_text(layout.width) + " " + to_text(layout.height)) + ">\n";
  const std::u32string title = drawable(heatmap.title);
  svg += "<title>" + (title.empty() ? "Attention weights" : to_xml(title)) + "</title>\n";
  svg += filled({0, 0, layout.width, layout.height}, to_hex(kPaper));
  for (std::size_t i = 0; i < heatmap.panels.size(); ++i) {
    const Panel& panel = heatmap.panels[i];
    svg += as_shapes ? cells_as_shapes(heatmap, panel, layout, layout.panels[i])
                     : cells_as_image(heatmap, panel, layout, layout.panels[i]);
  }
  svg += colour_bar(layout.bar);
  if (layout.nan_swatch) svg += filled(*layout.nan_swatch, to_hex(kNanColour));
  svg += "<g" + attribute("fill", to_hex(kInk)) + " shape-rendering=\"crispEdges\">\n";
  for (const Box& tick : layout.ticks) svg += "<rect" + box_attributes(tick) + "/>\n";
  svg += "</g>\n<g" + attribute("fill", to_hex(kInk)) + attribute("font-family", kFonts) +
         attribute("font-size", metrics_of(FontSize::kLabel).em) + ">\n";
  for (const TextRun& text : layout.texts) svg += text_element(text);
  return svg + "</g>\n</svg>\n";
}

}  // namespace attend::tools
