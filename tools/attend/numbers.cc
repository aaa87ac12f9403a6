#include "tools/attend/numbers.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "tools/attend/command.h"

namespace attend::tools {
namespace {

[[noreturn]] void refuse(const std::string& word, const std::string& text, const std::string& expected) {
  wrong_usage(word + ": '" + text + "', expected " + expected);
}

// All of text as a finite number of this type, if it is one and the type can hold it.
template <class Real>
std::optional<Real> finite(const std::string& text) {
  Real number = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace

std::int64_t parse_whole(const std::string& word, const std::string& text, std::int64_t least, std::int64_t most,
                         const std::string& or_else) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end && number >= least && number <= most) return number;
  // "from 1 on" would be no answer to what is too large for 64 bits.
  const bool has_limit = most != kNoLimit || read.ec == std::errc::result_out_of_range;
  refuse(
      word, text,
      "a whole number from " + std::to_string(least) + (has_limit ? " to " + std::to_string(most) : " on") + or_else);
}

double parse_number(const std::string& word, const std::string& text, double least, double below,
                    const std::string& expected) {
  const std::optional<double> number = finite<double>(text);
  if (!number || !(*number >= least) || !(*number < below)) refuse(word, text, expected);
  return *number;
}

float parse_float(const std::string& word, const std::string& text) {
  const std::optional<float> number = finite<float>(text);
  if (!number) refuse(word, text, "a finite number in the range of float32");
  return *number;
}

}  // namespace attend::tools
