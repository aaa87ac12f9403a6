#include "tools/heatmap/layout.h"

#include <algorithm>

#include "tests/tools/heatmap/support.h"

namespace attend::tools {
namespace {

using testing::diagonal;
using testing::repeated;
using testing::Size;

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

std::string narrow(const std::u32string& text) {
  std::string ascii;
  for (const char32_t code : text) ascii += code < 0x80 ? static_cast<char>(code) : '?';
  return ascii;
}

// Nothing is clipped, and no text meets another text, a panel, a tick or the bar.
void check_is_tidy(const Layout& layout) {
  const Box canvas = {0, 0, layout.width, layout.height};
  const auto inside = [&](const Box& box) {
    return box.x >= 0 && box.y >= 0 && box.right() <= canvas.width && box.bottom() <= canvas.height;
  };
  std::vector<Box> shapes = layout.panels;
  shapes.push_back(layout.bar);
  if (layout.nan_swatch) shapes.push_back(*layout.nan_swatch);
  for (const Box& shape : shapes) CHECK(inside(shape));
  shapes.insert(shapes.end(), layout.ticks.begin(), layout.ticks.end());

  // Sorted by their left edge, only neighbours can meet: a large picture has thousands of texts.
  std::vector<const TextRun*> texts;
  for (const TextRun& text : layout.texts) texts.push_back(&text);
  std::ranges::sort(texts, {}, [](const TextRun* text) { return text->box.x; });
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const TextRun& text = *texts[i];
    INFO("text '", narrow(text.text), "' at ", text.box.x, ", ", text.box.y);
    if (!inside(text.box)) FAIL_CHECK("is clipped");
    for (const Box& shape : shapes) {
      if (overlap(text.box, shape)) FAIL_CHECK("meets a shape at " << shape.x << ", " << shape.y);
    }
    for (std::size_t j = i + 1; j < texts.size() && texts[j]->box.x < text.box.right(); ++j) {
      if (overlap(text.box, texts[j]->box)) FAIL_CHECK("meets '" << narrow(texts[j]->text) << "'");
    }
  }
}

std::int64_t num_texts(const Layout& layout, std::u32string_view text) {
  return std::ranges::count_if(layout.texts, [&](const TextRun& run) { return run.text == text; });
}

TEST_CASE("heatmap layout: nothing overlaps and nothing is clipped, whatever the sizes and labels") {
  const std::vector<std::vector<std::string>> label_sets = {
      {},
      {"a", "b", "␣", "W"},
      {"Donnerstag", ",", "x"},
      {"Donaudampfschifffahrtsgesellschaftskapitän"},
      {""},
      {"日本語", "😀", "\xff\xff\xff", "<s>"},
  };
  for (const Size size :
       std::vector<Size>{{1, 1}, {1, 40}, {40, 1}, {10, 17}, {64, 64}, {300, 500}, {2, 1000}, {512, 512}, {1, 20000}}) {
    for (const std::int64_t num_panels : {1, 2, 4, 7, 8, 12}) {
      if (num_panels > 1 && size.rows * size.columns > 20000) continue;
      Heatmap heatmap = diagonal(num_panels, size.rows, size.columns);
      for (const auto& words : label_sets) {
        heatmap.row_labels = words.empty() ? words : repeated(words, size.rows);
        heatmap.column_labels = words.empty() ? words : repeated(words, size.columns);
        INFO(size.rows, " x ", size.columns, ", ", num_panels, " panels, labels '",
             words.empty() ? "none" : words.front(), "'");
        check_is_tidy(layout_of(heatmap));
      }
    }
  }
}

TEST_CASE("heatmap layout: long titles and axis names are cut, not clipped") {
  Heatmap heatmap = diagonal(3, 1, 1);
  heatmap.title = std::string(1000, 'W');
  heatmap.row_axis = std::string(300, 'x');
  heatmap.column_axis = std::string(300, 'y');
  heatmap.panels[1].title = std::string(300, 'z');
  heatmap.panels[2].weights = {NAN};
  check_is_tidy(layout_of(heatmap));
  heatmap.title = heatmap.row_axis = heatmap.column_axis = "";
  check_is_tidy(layout_of(heatmap));
}

TEST_CASE("heatmap layout: labels are thinned only where cells are smaller than a line") {
  Heatmap heatmap = diagonal(1, 10, 17);
  heatmap.row_labels = repeated({"r"}, 10);
  heatmap.column_labels = repeated({"c"}, 17);
  CHECK(num_texts(layout_of(heatmap), U"r") == 10);
  CHECK(num_texts(layout_of(heatmap), U"c") == 17);

  heatmap = diagonal(1, 500, 500);
  heatmap.row_labels = repeated({"r"}, 500);
  const std::int64_t drawn = num_texts(layout_of(heatmap), U"r");
  CHECK(drawn >= 20);
  CHECK(drawn < 100);
}

TEST_CASE("heatmap layout: words are rotated, single characters stay upright") {
  Heatmap heatmap = diagonal(1, 3, 3);
  heatmap.column_labels = {"Donnerstag", ",", "am"};
  for (const TextRun& run : layout_of(heatmap).texts) {
    if (run.text == U"Donnerstag" || run.text == U"am") CHECK(run.rotated);
    if (run.text == U",") CHECK_FALSE(run.rotated);
  }
  heatmap.column_labels = {"x", ",", "am"};  // all of which fit into their cells
  for (const TextRun& run : layout_of(heatmap).texts) {
    if (run.text == U"am") CHECK_FALSE(run.rotated);
  }
}

TEST_CASE("heatmap layout: panels form a balanced grid of equal panels") {
  const Layout layout = layout_of(diagonal(8, 64, 64));
  REQUIRE(layout.panels.size() == 8);
  CHECK(layout.panels[3].y == layout.panels[0].y);
  CHECK(layout.panels[4].x == layout.panels[0].x);
  CHECK(layout.panels[4].y > layout.panels[0].bottom());
  for (const Box& panel : layout.panels) {
    CHECK(panel.width == layout.panels[0].width);
    CHECK(panel.height == panel.width);
  }
}

TEST_CASE("heatmap layout: cells shrink to a pixel and are then shared, so that the panels stay within 8192 pixels") {
  const Layout fine = layout_of(diagonal(1, 512, 512));
  CHECK(fine.cell_width >= 1);
  CHECK(fine.columns_per_cell == 1);

  const Layout shared = layout_of(diagonal(1, 3, 100000));
  CHECK(shared.columns_per_cell == 13);  // 100000 / 8192, rounded up
  CHECK(shared.rows_per_cell == 1);
  CHECK(shared.cell_columns == 7693);
  CHECK(shared.panels[0].width <= 8192);
  CHECK(shared.panels[0].height >= 24);
  CHECK(num_texts(shared, U"every cell shows the largest of 1 × 13 weights") == 1);
}

TEST_CASE("heatmap layout: the legend says what is special") {
  Heatmap heatmap = diagonal(1, 2, 2);
  CHECK(num_texts(layout_of(heatmap), U"attention weight") == 1);
  CHECK_FALSE(layout_of(heatmap).nan_swatch.has_value());
  heatmap.panels[0].weights = {NAN, 1.5F, 0.0F, 0.0F};
  const Layout layout = layout_of(heatmap);
  CHECK(layout.nan_swatch.has_value());
  CHECK(num_texts(layout, U"not a number (NaN)") == 1);
  CHECK(num_texts(layout, U"weights outside 0 to 1 are drawn as 0 or 1") == 1);
  check_is_tidy(layout);
}

}  // namespace
}  // namespace attend::tools
