// The small parts of the pictures: colours, scale, text, font.
#include "tests/tools/heatmap/support.h"
#include "tools/heatmap/font.h"
#include "tools/heatmap/scale.h"
#include "tools/heatmap/text.h"

namespace attend::tools {
namespace {

std::vector<std::string> labels_of(const Scale& scale) {
  std::vector<std::string> labels;
  for (const Tick& tick : scale.ticks) labels.push_back(tick.label);
  return labels;
}

// CIE lightness, 0 to 100.
double lightness(Colour colour) {
  const auto linear = [](std::uint8_t channel) {
    const double c = channel / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  const double luminance = 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
  return 116 * std::cbrt(luminance) - 16;
}

TEST_CASE("colour map: published ends and middle, clamped, NaN apart") {
  CHECK(to_hex(colour_of(0.0F, 1.0)) == "#440154");
  CHECK(to_hex(colour_of(1.0F, 1.0)) == "#fde725");
  CHECK(colour_of(85.0F / 255.0F, 1.0) == control_points()[17]);  // the map's entry 85, every fifth of which is kept
  CHECK(colour_of(0.25F, 0.5) == colour_of(0.5F, 1.0));
  CHECK(colour_of(-1.0F, 1.0) == control_points().front());
  CHECK(colour_of(INFINITY, 1.0) == control_points().back());
  CHECK(colour_of(-INFINITY, 1.0) == control_points().front());
  CHECK(colour_of(NAN, 1.0) == kNanColour);
}

TEST_CASE("colour map: lightness grows evenly, so that grey print shows the same") {
  constexpr int kSteps = 20;
  double previous = lightness(colour_of(0.0F, 1.0));
  for (int i = 1; i <= kSteps; ++i) {
    const double next = lightness(colour_of(static_cast<float>(i) / kSteps, 1.0));
    CHECK(next - previous > 2);
    CHECK(next - previous < 6);
    previous = next;
  }
}

TEST_CASE("scale: ends at the largest weight rounded up to a short number") {
  CHECK(labels_of(scale_for(1.0)) == std::vector<std::string>{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"});
  CHECK(labels_of(scale_for(0.93)) == labels_of(scale_for(1.0)));
  CHECK(labels_of(scale_for(0.043)) == std::vector<std::string>{"0.00", "0.01", "0.02", "0.03", "0.04", "0.05"});
  CHECK(labels_of(scale_for(0.0021)) ==
        std::vector<std::string>{"0.0000", "0.0005", "0.0010", "0.0015", "0.0020", "0.0025"});
  CHECK(labels_of(scale_for(2.2e-6)) ==
        std::vector<std::string>{"0", "5.0e-07", "1.0e-06", "1.5e-06", "2.0e-06", "2.5e-06"});
  CHECK(scale_for(static_cast<double>(0.2F)).end == doctest::Approx(0.2));
  CHECK(scale_for(static_cast<double>(1.0F / 3)).end == doctest::Approx(0.4));
}

TEST_CASE("scale: what is no weight does not matter") {
  for (const double largest : {0.0, -3.0, 1.5, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    CHECK(scale_for(largest).end == 1);
  }
  double largest = 1;
  while (largest > 1e-45) {  // the least float
    largest *= 0.83;
    const Scale scale = scale_for(largest);
    CHECK(scale.end >= largest * (1 - 1e-6));
    CHECK(scale.end <= largest * 1.6);
    CHECK(scale.ticks.size() >= 4);
    CHECK(scale.ticks.size() <= 6);
    CHECK(scale.ticks.back().position == 1);
  }
}

TEST_CASE("text: what may not be drawn becomes a replacement character") {
  CHECK(drawable("a’€😀") == U"a’€😀");
  CHECK(drawable("a\xff"
                 "b") == U"a\uFFFDb");
  CHECK(drawable("\xc0\x80") == U"\uFFFD\uFFFD");            // overlong NUL
  CHECK(drawable("\xed\xa0\x80") == U"\uFFFD\uFFFD\uFFFD");  // surrogate
  CHECK(drawable("\xe2\x82") == U"\uFFFD\uFFFD");            // cut short
  CHECK(drawable("\t\x7f\xc2\x85\xe2\x80\xa8") == U"\uFFFD\uFFFD\uFFFD\uFFFD");
  CHECK(to_xml(U"<&>\"'é日😀") == "&lt;&amp;&gt;&quot;&apos;é日😀");
}

TEST_CASE("text: too long is cut to fit") {
  const std::u32string text(100, U'm');
  for (const std::int64_t room : {20, 57, 160}) {
    const std::u32string cut = elided(text, FontSize::kLabel, room);
    CHECK(width_of(FontSize::kLabel, cut) <= room);
    CHECK(cut.back() == U'…');
  }
  CHECK(elided(U"fits", FontSize::kLabel, width_of(FontSize::kLabel, U"fits")) == U"fits");
}

TEST_CASE("font: bitmaps are whole, in order, and cover what is promised") {
  for (const FontSize size : {FontSize::kLabel, FontSize::kTitle}) {
    const auto glyphs = size == FontSize::kLabel ? label_glyphs() : title_glyphs();
    char32_t previous = 0;
    for (const Glyph& glyph : glyphs) {
      CHECK(glyph.code_point > previous);
      previous = glyph.code_point;
      CHECK(glyph.coverage.size() == static_cast<std::size_t>(glyph.width) * static_cast<std::size_t>(glyph.height));
      CHECK(glyph.coverage.find_first_not_of("0123456789abcdef") == std::string_view::npos);
    }
    for (char32_t code = 0x20; code < 0x180; ++code) {
      if (code < 0x7F || code >= 0xA0) CHECK(find_glyph(size, code) != nullptr);
    }
    for (const char32_t code : U"ΑΩαωςЁАЯаяё‘’“”„–—…€␣▁×") {
      if (code != 0) CHECK(find_glyph(size, code) != nullptr);
    }
    CHECK(find_glyph(size, U'日') == nullptr);
    CHECK(advance_of(size, U'日') == metrics_of(size).em);  // room for the SVG's glyph
    CHECK(advance_of(size, 0xFE0F) == 0);                   // variation selector
    CHECK(find_glyph(size, U'H')->top == metrics_of(size).cap_height);
  }
}

}  // namespace
}  // namespace attend::tools
