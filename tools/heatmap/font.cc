#include "tools/heatmap/font.h"

#include <algorithm>

namespace attend::tools {
namespace {

// Characters that only steer their neighbours: joiners, direction marks, variation selectors (emoji sequences are full
// of them). They take no room.
bool is_invisible(char32_t code) {
  return (code >= 0x200B && code <= 0x200F) || (code >= 0x2060 && code <= 0x2064) ||
         (code >= 0xFE00 && code <= 0xFE0F) || code == 0xFEFF || code == 0xAD;
}

// Characters that fonts draw about one em wide (a coarse form of Unicode's East Asian Width): room for them in the SVG.
bool is_wide(char32_t code) {
  return (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
         (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
         (code >= 0xFFE0 && code <= 0xFFE6) || (code >= 0x20000 && code <= 0x3FFFD);
}

bool is_emoji(char32_t code) { return code >= 0x1F000 && code <= 0x1FAFF; }

}  // namespace

FontMetrics metrics_of(FontSize size) {
  // make_font.py's sizes. Ascent and descent are DejaVu's (0.928 and 0.236 em), up to the next pixel.
  if (size == FontSize::kTitle) return {.em = 18, .ascent = 17, .descent = 5, .cap_height = 13};
  return {.em = 13, .ascent = 13, .descent = 4, .cap_height = 9};
}

const Glyph* find_glyph(FontSize size, char32_t code_point) {
  const auto glyphs = size == FontSize::kTitle ? title_glyphs() : label_glyphs();
  const auto found = std::ranges::lower_bound(glyphs, code_point, {}, &Glyph::code_point);
  return found != glyphs.end() && found->code_point == code_point ? &*found : nullptr;
}

std::int64_t advance_of(FontSize size, char32_t code_point) {
  if (is_invisible(code_point)) return 0;
  if (const Glyph* glyph = find_glyph(size, code_point)) return glyph->advance;
  const std::int64_t em = metrics_of(size).em;
  if (is_emoji(code_point)) return em * 5 / 4;  // Noto Color Emoji's advance
  return is_wide(code_point) ? em : em * 2 / 3;
}

std::int64_t width_of(FontSize size, std::u32string_view text) {
  std::int64_t width = 0;
  for (const char32_t code_point : text) width += advance_of(size, code_point);
  return width;
}

}  // namespace attend::tools
