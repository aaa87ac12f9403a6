// The letters of the pictures: metrics for the layout, bitmaps for the PNG. DejaVu Sans in two sizes, embedded.
//
// Covered: ASCII, Latin-1, Latin Extended-A, Greek, basic Cyrillic, general punctuation, the usual signs for a space.
// All else (CJK, emoji, ...) is a box in the PNG; the SVG shows it in whatever fonts the viewer has.
#ifndef ATTEND_TOOLS_HEATMAP_FONT_H_
#define ATTEND_TOOLS_HEATMAP_FONT_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace attend::tools {

struct Glyph {
  char32_t code_point;
  std::int16_t advance;  // pixels to the next glyph's origin
  std::int16_t left;     // from the origin to the bitmap's left edge
  std::int16_t top;      // from the baseline up to the bitmap's top edge
  std::int16_t width;    // of the bitmap
  std::int16_t height;
  std::string_view coverage;  // width * height hexadecimal digits, row by row: 0 is paper, f is ink
};

// In ascending order of code points (font_data.cc, written by make_font.py).
std::span<const Glyph> label_glyphs();
std::span<const Glyph> title_glyphs();

enum class FontSize { kLabel, kTitle };

// All in pixels.
struct FontMetrics {
  std::int64_t em;
  std::int64_t ascent;      // of the highest letter covered, accents included, above the baseline
  std::int64_t descent;     // below the baseline
  std::int64_t cap_height;  // of a capital letter
  std::int64_t line_height() const { return ascent + descent; }
};

FontMetrics metrics_of(FontSize size);

// nullptr where the font has no such glyph: draw a box.
const Glyph* find_glyph(FontSize size, char32_t code_point);

std::int64_t advance_of(FontSize size, char32_t code_point);
std::int64_t width_of(FontSize size, std::u32string_view text);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_FONT_H_
