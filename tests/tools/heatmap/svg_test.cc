#include "tests/tools/heatmap/support.h"

namespace attend::tools {
namespace {

using testing::count_of;
using testing::diagonal;
using testing::xml_fault;

TEST_CASE("heatmap svg: well-formed, with a tooltip per cell") {
  Heatmap heatmap = diagonal(2, 3, 4);
  heatmap.column_labels = {"Am", "Donnerstag", ",", "x"};
  const std::string svg = render_svg(heatmap);
  CHECK(xml_fault(svg) == "");
  CHECK(count_of(svg, "<title>queries ") == 24);
  CHECK(count_of(svg, "<title>queries 1, keys Donnerstag: 1</title>") == 2);
  CHECK(count_of(svg, ">Donnerstag</text>") == 2);
  CHECK(count_of(svg, ">head 0</text>") == 1);
  CHECK(count_of(svg, "attention weight</text>") == 1);
  CHECK(count_of(svg, "<svg ") == 1);
}

TEST_CASE("heatmap svg: cells take the colour of their weight") {
  Heatmap heatmap = diagonal(1, 1, 3);
  heatmap.panels[0].weights = {1.0F, 0.5F, NAN};
  const std::string svg = render_svg(heatmap);
  CHECK(count_of(svg, "fill=\"" + to_hex(control_points().back()) + "\"><title>queries 0, keys 0: 1<") == 1);
  CHECK(count_of(svg, "fill=\"" + to_hex(colour_of(0.5F, 1.0)) + "\"><title>queries 0, keys 1: 0.5<") == 1);
  CHECK(count_of(svg, "fill=\"" + to_hex(kNanColour) + "\"><title>queries 0, keys 2: NaN<") == 1);
}

TEST_CASE("heatmap svg: hostile text is text") {
  const std::vector<std::string> hostile = {
      "<script>alert('1')</script>", "\" onload=\"x",           "&amp; &", "]]>", std::string("nul\0and\x1b[31m", 12),
      "\xff\xc0\x80\xed\xa0\x80",    "\xef\xbf\xbe\xe2\x80\xae"};
  Heatmap heatmap = diagonal(1, 7, 7);
  heatmap.row_labels = heatmap.column_labels = hostile;
  for (const std::string& text : hostile) {
    heatmap.title = heatmap.panels[0].title = heatmap.row_axis = heatmap.column_axis = text;
    const std::string svg = render_svg(heatmap);
    CHECK(xml_fault(svg) == "");
    CHECK(count_of(svg, "<script") == 0);
    CHECK(count_of(svg, "\" onload") == 0);
    CHECK(svg.find('\0') == std::string::npos);
    CHECK(count_of(svg, "\xff") == 0);
    CHECK(count_of(svg, "\xef\xbf\xbe") == 0);  // U+FFFE, which XML forbids
    CHECK(count_of(svg, "\xe2\x80\xae") == 0);  // right-to-left override
  }
  CHECK(count_of(render_svg(heatmap), ">&quot; onload=&quot;x</text>") == 2);
}

TEST_CASE("heatmap svg: real characters, whatever the PNG can draw") {
  Heatmap heatmap = diagonal(1, 2, 2);
  heatmap.row_labels = {"日本", "😀"};
  const std::string svg = render_svg(heatmap);
  CHECK(count_of(svg, ">日本</text>") == 1);
  CHECK(count_of(svg, ">😀</text>") == 1);
}

TEST_CASE("heatmap svg: many cells are an embedded image per panel") {
  CHECK(count_of(render_svg(diagonal(1, 64, 64)), "<image") == 0);
  const std::string svg = render_svg(diagonal(2, 64, 64));
  CHECK(xml_fault(svg) == "");
  CHECK(count_of(svg, "<image") == 2);
  CHECK(count_of(svg, "href=\"data:image/png;base64,iVBORw0KGgo") == 2);
  CHECK(count_of(svg, "<title>") == 1);
  CHECK(count_of(svg, "http") == 1);  // the namespace: nothing is fetched from elsewhere
}

TEST_CASE("the checker of these tests finds faults") {
  CHECK(xml_fault("<?x?><a><b/></a>") == "");
  CHECK(xml_fault("<?x?><a><b></a>") != "");
  CHECK(xml_fault("<?x?><a>&</a>") != "");
  CHECK(xml_fault("<?x?><a/><b/>") != "");
  CHECK(xml_fault("<?x?><a b=\"<\"/>") != "");
  CHECK(xml_fault("<?x?><a>\x01</a>") != "");
}

}  // namespace
}  // namespace attend::tools
