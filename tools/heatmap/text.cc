#include "tools/heatmap/text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "tools/io/utf8.h"

namespace attend::tools {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr char32_t kEllipsis = 0x2026;

bool is_drawable(char32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool separator = code == 0x2028 || code == 0x2029;
  const bool direction = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  const bool noncharacter = (code & 0xFFFEU) == 0xFFFEU || (code >= 0xFDD0 && code <= 0xFDEF);
  return !(control || separator || direction || noncharacter);
}

void append_utf8(std::string& to, char32_t code) {
  const auto append = [&to](char32_t byte) { to.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code < 0x80) {
    append(code);
  } else if (code < 0x800) {
    append(0xC0U | (code >> 6U));
    append(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    append(0xE0U | (code >> 12U));
    append(0x80U | ((code >> 6U) & 0x3FU));
    append(0x80U | (code & 0x3FU));
  } else {
    append(0xF0U | (code >> 18U));
    append(0x80U | ((code >> 12U) & 0x3FU));
    append(0x80U | ((code >> 6U) & 0x3FU));
    append(0x80U | (code & 0x3FU));
  }
}

}  // namespace

std::u32string drawable(std::string_view utf8) {
  std::u32string text;
  std::size_t position = 0;
  while (position < utf8.size()) {
    const io::Utf8Char next = io::decode_utf8(utf8, position);
    const bool valid = next.num_bytes > 0;
    text.push_back(valid && is_drawable(next.code_point) ? next.code_point : kReplacement);
    position += valid ? next.num_bytes : 1;
  }
  return text;
}

std::u32string elided(std::u32string_view text, FontSize size, std::int64_t max_width) {
  const std::int64_t room = max_width - advance_of(size, kEllipsis);
  std::int64_t width = 0;
  std::size_t num_kept = 0;  // that leave room for the ellipsis
  for (std::size_t i = 0; i < text.size(); ++i) {
    width += advance_of(size, text[i]);
    if (width <= room) num_kept = i + 1;
    if (width > max_width) return std::u32string(text.substr(0, num_kept)) + kEllipsis;
  }
  return std::u32string(text);
}

std::string to_xml(std::u32string_view text) {
  std::string xml;
  for (const char32_t code : text) {
    switch (code) {
      case U'&':
        xml += "&amp;";
        break;
      case U'<':
        xml += "&lt;";
        break;
      case U'>':
        xml += "&gt;";
        break;
      case U'"':
        xml += "&quot;";
        break;
      case U'\'':
        xml += "&apos;";
        break;
      default:
        append_utf8(xml, code);
    }
  }
  return xml;
}

std::string to_text(std::int64_t number) { return std::to_string(number); }

std::string to_text(double number, int significant_digits) {
  if (std::isnan(number)) return "NaN";  // of either sign
  std::array<char, 64> digits;
  // Not printf: it writes a comma in half of Europe.
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::general,
                                 significant_digits);
  return {digits.data(), end.ptr};
}

}  // namespace attend::tools
