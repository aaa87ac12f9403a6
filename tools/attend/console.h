// What is said to people on the terminal, apart from results.
#ifndef ATTEND_TOOLS_ATTEND_CONSOLE_H_
#define ATTEND_TOOLS_ATTEND_CONSOLE_H_

#include <string>
#include <string_view>

#include "attend/io.h"

namespace attend::tools {

// text with control characters, line ends above all, as '?': file names may hold them and must not forge lines.
std::string one_line(std::string_view text);

// "attend: note: ..." on stderr, one line each.
void print_note(std::string_view text);
void print_notes(const io::Notices& notices);

// Throws Error unless all that was printed has arrived. To be called before output files change: exit code 1 says that
// none did, but in bench-compare --fail-on-slower.
void flush_stdout();

// 0.00012 s -> "120 us": three digits and the unit that suits them.
std::string duration_text(double seconds);

// "1.2e-07"
std::string scientific(double number);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_CONSOLE_H_
