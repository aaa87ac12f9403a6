#include "tools/io/utf8.h"

namespace attend::io {
namespace {

// How many bytes a leading byte announces, and the least code point that may take that many (less would be overlong).
struct Form {
  std::size_t num_bytes;
  char32_t least;
  char32_t leading_bits;
};

Form form_of(unsigned char leading) {
  if (leading < 0x80) return {1, 0, leading};
  if (leading >= 0xC0 && leading < 0xE0) return {2, 0x80, leading & 0x1FU};
  if (leading >= 0xE0 && leading < 0xF0) return {3, 0x800, leading & 0x0FU};
  if (leading >= 0xF0 && leading < 0xF8) return {4, 0x10000, leading & 0x07U};
  return {0, 0, 0};
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, std::size_t position) {
  const Form form = form_of(static_cast<unsigned char>(text[position]));
  if (form.num_bytes == 0 || form.num_bytes > text.size() - position) return {};
  char32_t code_point = form.leading_bits;
  for (std::size_t i = 1; i < form.num_bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[position + i]);
    if ((byte & 0xC0U) != 0x80U) return {};
    code_point = (code_point << 6U) | (byte & 0x3FU);
  }
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < form.least || code_point > 0x10FFFF || surrogate) return {};
  return {code_point, form.num_bytes};
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    const Utf8Char next = decode_utf8(text, position);
    if (next.num_bytes == 0) return position;
    position += next.num_bytes;
  }
  return std::string_view::npos;
}

}  // namespace attend::io
