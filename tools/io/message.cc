#include "tools/io/message.h"

#include <algorithm>
#include <limits>
#include <system_error>

#include "tools/io/utf8.h"

namespace attend::io {
namespace {

constexpr std::size_t kMaxListedNames = 8;

bool is_control(char32_t c) {
  const bool c0_or_c1 = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool line_or_direction = (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return c0_or_c1 || line_or_direction;
}

void append_escaped(std::string& out, std::string_view bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += kHex[byte >> 4U];
    out += kHex[byte & 0x0FU];
  }
}

}  // namespace

void fail(const std::string& where, const std::string& what) { throw Error(where + ": " + what); }

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  std::size_t position = 0;
  while (position < text.size()) {
    if (position >= max_bytes) return out + "...";
    const Utf8Char next = decode_utf8(text, position);
    const std::size_t num_bytes = std::max<std::size_t>(next.num_bytes, 1);
    const std::string_view bytes = text.substr(position, num_bytes);
    if (next.num_bytes == 0 || is_control(next.code_point)) {
      append_escaped(out, bytes);
    } else {
      out += bytes;
    }
    position += num_bytes;
  }
  return out;
}

std::string printable_path(std::string_view path) { return printable(path, std::numeric_limits<std::size_t>::max()); }

std::string in_quotes(std::string_view name) { return "'" + printable(name) + "'"; }

std::string tensor_label(std::string_view path, std::string_view name) {
  return printable_path(path) + ": tensor " + in_quotes(name);
}

std::string list_of(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  std::string out;
  const std::size_t num_listed = std::min(names.size(), kMaxListedNames);
  for (std::size_t i = 0; i < num_listed; ++i) out += (i == 0 ? "" : ", ") + in_quotes(names[i]);
  if (num_listed < names.size()) out += " and " + std::to_string(names.size() - num_listed) + " more";
  return out;
}

std::string system_reason(int error_number) { return std::generic_category().message(error_number); }

}  // namespace attend::io
