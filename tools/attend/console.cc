#include "tools/attend/console.h"

#include <cstdio>
#include <iostream>

#include "attend/error.h"

namespace attend::tools {

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return line;
}

void print_note(std::string_view text) { std::cerr << "attend: note: " << one_line(text) << '\n'; }

void print_notes(const io::Notices& notices) {
  for (const std::string& notice : notices) print_note(notice);
}

void flush_stdout() {
  std::cout.flush();
  if (!std::cout) throw Error("cannot write to standard output");
}

std::string duration_text(double seconds) {
  const char* unit = "s";
  if (seconds < 1e-6) {
    seconds *= 1e9;
    unit = "ns";
  } else if (seconds < 1e-3) {
    seconds *= 1e6;
    unit = "us";
  } else if (seconds < 1) {
    seconds *= 1e3;
    unit = "ms";
  }
  char text[48];
  std::snprintf(text, sizeof text, seconds < 100 ? "%.3g %s" : "%.0f %s", seconds, unit);
  return text;
}

std::string scientific(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", number);
  return text;
}

}  // namespace attend::tools
