// Error messages: one line, safe to print, naming the file and the tensor.
#ifndef ATTEND_TOOLS_IO_MESSAGE_H_
#define ATTEND_TOOLS_IO_MESSAGE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "attend/error.h"

namespace attend::io {

// Throws Error("where: what").
[[noreturn]] void fail(const std::string& where, const std::string& what);

// text on one line: control characters, line separators, direction overrides and bytes that are not UTF-8 become \xNN.
// Names come out of hostile files and end up in terminals and logs. Longer than max_bytes is cut, with an ellipsis.
std::string printable(std::string_view text, std::size_t max_bytes = 200);

// A path as messages name it: printable and never cut.
std::string printable_path(std::string_view path);

// "'name'", printable.
std::string in_quotes(std::string_view name);

// "file.npz: tensor 'x'": what messages about one tensor of a file start with.
std::string tensor_label(std::string_view path, std::string_view name);

// "'a', 'b', 'c' and 12 more": what could have been asked for. "none" when there is nothing.
std::string list_of(const std::vector<std::string>& names);

// "No such file or directory" for ENOENT, and so on; thread-safe.
std::string system_reason(int error_number);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_MESSAGE_H_
