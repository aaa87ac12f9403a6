// Label files: UTF-8 lines in blocks separated by blank lines.
#include "attend/io.h"
#include "tools/io/file.h"
#include "tools/io/guard.h"
#include "tools/io/message.h"
#include "tools/io/utf8.h"

namespace attend::io {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

void check_line(std::string_view line, std::size_t number, const std::string& label) {
  const std::string where = label + ": line " + std::to_string(number);
  if (line.find('\0') != std::string_view::npos) fail(where, "has a NUL byte, expected text");
  const std::size_t invalid = find_invalid_utf8(line);
  if (invalid != std::string_view::npos) {
    fail(where,
         "is not UTF-8 at byte " + std::to_string(invalid + 1) + " of the line: " + in_quotes(line.substr(invalid, 1)));
  }
}

// The text up to the next "\n" or "\r\n", which is removed with it.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

std::vector<std::vector<std::string>> load_labels(const std::string& path) {
  return guarded(path, [&] {
    const File file(path);
    const std::string whole = read_whole(file);
    std::string_view text = whole;
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    std::vector<std::vector<std::string>> blocks;
    bool in_block = false;
    for (std::size_t number = 1; !text.empty(); ++number) {
      const std::string_view line = take_line(text);
      check_line(line, number, file.label());
      if (!line.empty() && !in_block) blocks.emplace_back();
      if (!line.empty()) blocks.back().emplace_back(line);
      in_block = !line.empty();
    }
    return blocks;
  });
}

}  // namespace attend::io
