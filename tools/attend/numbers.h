// Numbers behind a word: decimal and nothing else (no 0x10, no 010 for 8), and never changed to one that fits.
#ifndef ATTEND_TOOLS_ATTEND_NUMBERS_H_
#define ATTEND_TOOLS_ATTEND_NUMBERS_H_

#include <cstdint>
#include <limits>
#include <string>

namespace attend::tools {

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// Wrong usage, "word: 'text', expected a whole number from 1 on", unless text is one in [least, most]. or_else: what
// else is taken, ", or all".
std::int64_t parse_whole(const std::string& word, const std::string& text, std::int64_t least,
                         std::int64_t most = kNoLimit, const std::string& or_else = "");

// Wrong usage, "word: 'text', expected " and what the caller says, unless text is a number in [least, below). Infinity
// and NaN never are.
double parse_number(const std::string& word, const std::string& text, double least, double below,
                    const std::string& expected);

// The float nearest to text. Wrong usage unless that is finite; 0 only for 0.
float parse_float(const std::string& word, const std::string& text);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_NUMBERS_H_
