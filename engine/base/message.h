// Builds the one-line messages of attend::Error. Used only while planning, loading or checking: never on the hot path.
#ifndef ATTEND_BASE_MESSAGE_H_
#define ATTEND_BASE_MESSAGE_H_

#include <array>
#include <charconv>
#include <cstdint>
#include <locale>
#include <sstream>
#include <string>

#include "attend/error.h"

namespace attend {

// Names that callers and files give may hold line ends and other control characters: spaces instead.
inline std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return text;
}

// fail("keys has size ", 64, ", queries has ", 48) throws Error("keys has size 64, queries has 48").
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream message;
  message.imbue(std::locale::classic());  // whatever the program's is
  (message << ... << parts);
  throw Error(one_line(message.str()));
}

// As printf("%.3g") and the like write it, with a point in every locale.
inline std::string number_text(double number, std::chars_format format, int precision) {
  std::array<char, 400> text;  // 309 digits before the point
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), number, format, precision);
  return end.ec == std::errc() ? std::string(text.data(), end.ptr) : "?";
}

// An option that is none of its values: a binding's cast of a number that it did not look at.
template <class Option>
void check_is_one_of(const char* name, Option given, Option first, Option last, const char* expected) {
  const auto number = [](Option option) { return static_cast<long long>(option); };
  if (number(given) >= number(first) && number(given) <= number(last)) return;
  fail(name, " is ", number(given), ", expected ", expected);
}

}  // namespace attend

#endif  // ATTEND_BASE_MESSAGE_H_
