#include <algorithm>

#include "attend/error.h"
#include "tests/tools/heatmap/support.h"

namespace attend::tools {
namespace {

using testing::decode;
using testing::DecodedPng;
using testing::diagonal;
using testing::repeated;
using testing::Size;

std::string message_of(const Heatmap& heatmap) {
  try {
    render_png(heatmap);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool has_ink(const DecodedPng& png, const Box& box) {
  for (std::int64_t y = box.y; y < box.bottom(); ++y) {
    for (std::int64_t x = box.x; x < box.right(); ++x) {
      if (png.at(x, y).red < 128) return true;
    }
  }
  return false;
}

TEST_CASE("heatmap png: one-hot weights are bright exactly where they are") {
  for (const Size size : std::vector<Size>{{10, 17}, {1, 1}, {1, 40}, {40, 1}, {64, 64}, {300, 500}}) {
    const Heatmap heatmap = diagonal(2, size.rows, size.columns);
    const Layout layout = layout_of(heatmap);
    const DecodedPng png = decode(render_png(heatmap));
    CHECK(png.width == layout.width);
    CHECK(png.height == layout.height);
    std::int64_t num_wrong = 0;
    for (std::size_t panel = 0; panel < 2; ++panel) {
      for (std::int64_t row = 0; row < size.rows; ++row) {
        for (std::int64_t column = 0; column < size.columns; ++column) {
          const bool hot = column == row * size.columns / size.rows;
          const Colour expected = hot ? control_points().back() : control_points().front();
          num_wrong += png.middle_of(layout.cell_box(layout.panels[panel], row, column)) != expected;
        }
      }
    }
    INFO(size.rows, " x ", size.columns);
    CHECK(num_wrong == 0);
  }
}

TEST_CASE("heatmap png: cells take the colour of their weight, NaN and weights outside 0 to 1 included") {
  Heatmap heatmap = diagonal(1, 2, 3);
  heatmap.panels[0].weights = {0.0F, 0.25F, 1.0F, NAN, 7.0F, -INFINITY};
  const Layout layout = layout_of(heatmap);
  const DecodedPng png = decode(render_png(heatmap));
  const auto cell = [&](std::int64_t row, std::int64_t column) {
    return png.middle_of(layout.cell_box(layout.panels[0], row, column));
  };
  CHECK(cell(0, 0) == control_points().front());
  CHECK(cell(0, 1) == colour_of(0.25F, 1.0));
  CHECK(cell(0, 2) == control_points().back());
  CHECK(cell(1, 0) == kNanColour);
  CHECK(cell(1, 1) == control_points().back());
  CHECK(cell(1, 2) == control_points().front());
  CHECK(png.middle_of(*layout.nan_swatch) == kNanColour);
}

TEST_CASE("heatmap png: a shared cell shows the largest weight of its block") {
  Heatmap heatmap = diagonal(1, 1, 16384);  // two to a cell
  std::ranges::fill(heatmap.panels[0].weights, 0.25F);
  heatmap.panels[0].weights[4001] = 1.0F;
  const Layout layout = layout_of(heatmap);
  REQUIRE(layout.columns_per_cell == 2);
  const DecodedPng png = decode(render_png(heatmap));
  CHECK(png.middle_of(layout.cell_box(layout.panels[0], 0, 2000)) == control_points().back());
  CHECK(png.middle_of(layout.cell_box(layout.panels[0], 0, 2001)) == colour_of(0.25F, 1.0));
}

TEST_CASE("heatmap png: the colour bar runs from one end of the map to the other") {
  const Heatmap heatmap = diagonal(1, 2, 2);
  const Box bar = layout_of(heatmap).bar;
  const DecodedPng png = decode(render_png(heatmap));
  CHECK(png.at(bar.x, bar.y) == control_points().front());
  CHECK(png.at(bar.right() - 1, bar.bottom() - 1) == control_points().back());
  CHECK(png.at(bar.x - 1, bar.y) == kPaper);
}

TEST_CASE("heatmap png: every text leaves ink in its box, and the margin stays paper") {
  Heatmap heatmap = diagonal(2, 4, 4);
  heatmap.row_labels = {"Ünï", "日", "\xff", "Дата"};
  heatmap.column_labels = {"Donnerstag", ",", "😀", "␣"};
  const Layout layout = layout_of(heatmap);
  const DecodedPng png = decode(render_png(heatmap));
  CHECK(layout.texts.size() > 20);
  for (const TextRun& text : layout.texts) CHECK(has_ink(png, text.box));
  constexpr std::int64_t kMargin = 10;
  CHECK_FALSE(has_ink(png, {0, 0, png.width, kMargin}));
  CHECK_FALSE(has_ink(png, {0, 0, kMargin, png.height}));
  CHECK_FALSE(has_ink(png, {png.width - kMargin, 0, kMargin, png.height}));
  CHECK_FALSE(has_ink(png, {0, png.height - kMargin, png.width, kMargin}));
}

TEST_CASE("heatmap png: ink stays inside the box of its text") {
  // The layout keeps boxes apart; that is worth something only if letters keep to their boxes.
  Heatmap heatmap = diagonal(1, 2, 2);
  heatmap.row_labels = {"gjpqy()|", "WÅÄ_,;"};
  heatmap.column_labels = {"gjpqy()|@", "WÅÄ_,;"};
  const Layout layout = layout_of(heatmap);
  const DecodedPng png = decode(render_png(heatmap));
  std::vector<Box> drawn = layout.panels;
  drawn.insert(drawn.end(), layout.ticks.begin(), layout.ticks.end());
  drawn.push_back(layout.bar);
  for (const TextRun& text : layout.texts) drawn.push_back(text.box);
  std::int64_t num_outside = 0;
  for (std::int64_t y = 0; y < png.height; ++y) {
    for (std::int64_t x = 0; x < png.width; ++x) {
      if (png.at(x, y) == kPaper) continue;
      num_outside += std::ranges::none_of(
          drawn, [&](const Box& box) { return x >= box.x && x < box.right() && y >= box.y && y < box.bottom(); });
    }
  }
  CHECK(num_outside == 0);
}

TEST_CASE("heatmap png: says its resolution") {
  const std::string png = render_png(diagonal(1, 1, 1));
  const std::string pixels_per_metre("pHYs\0\0\x0e\xc4\0\0\x0e\xc4\x01", 13);  // 3780
  CHECK(png.find(pixels_per_metre) != std::string::npos);
}

TEST_CASE("heatmap png: same heatmap, same bytes") {
  const Heatmap heatmap = diagonal(4, 10, 20);
  CHECK(render_png(heatmap) == render_png(heatmap));
  CHECK(render_svg(heatmap) == render_svg(heatmap));
}

TEST_CASE("heatmap: sizes that do not agree are errors that name both") {
  Heatmap heatmap = diagonal(2, 3, 4);
  heatmap.row_labels = repeated({"a"}, 5);
  CHECK(message_of(heatmap) == "heatmap: 5 row labels, but the weights have 3 rows");
  heatmap.row_labels.clear();
  heatmap.column_labels = repeated({"a"}, 3);
  CHECK(message_of(heatmap) == "heatmap: 3 column labels, but the weights have 4 columns");
  heatmap.column_labels.clear();
  heatmap.panels[1].weights.pop_back();
  CHECK(message_of(heatmap) == "heatmap: panel 1 has 11 weights, expected 12 (3 x 4)");
  heatmap.panels.clear();
  CHECK(message_of(heatmap) == "heatmap: got 0 panels, expected 1 to 1024");
  heatmap.panels.resize(1025);
  CHECK(message_of(heatmap) == "heatmap: got 1025 panels, expected 1 to 1024");
  for (const Size size : std::vector<Size>{{0, 4}, {3, 0}, {-1, 4}, {INT64_MIN, INT64_MAX}, {INT64_MAX, 2}}) {
    heatmap.rows = size.rows;
    heatmap.columns = size.columns;
    const std::string sizes = std::to_string(size.rows) + " x " + std::to_string(size.columns);
    CHECK(message_of(heatmap) == "heatmap: rows x columns are " + sizes + ", expected 1 to 2147483647 each");
    CHECK_THROWS_AS(render_svg(heatmap), Error);
  }
}

}  // namespace
}  // namespace attend::tools
