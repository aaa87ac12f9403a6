// UTF-8, strictly: no overlong forms, no surrogates, nothing beyond U+10FFFF (RFC 3629, section 4).
#ifndef ATTEND_TOOLS_IO_UTF8_H_
#define ATTEND_TOOLS_IO_UTF8_H_

#include <cstddef>
#include <string_view>

namespace attend::io {

struct Utf8Char {
  char32_t code_point = 0;
  std::size_t num_bytes = 0;  // 0: the bytes here are not UTF-8
};

// The character that starts at text[position]; position < text.size().
Utf8Char decode_utf8(std::string_view text, std::size_t position);

// Where the first byte that is not UTF-8 is, or npos.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_UTF8_H_
