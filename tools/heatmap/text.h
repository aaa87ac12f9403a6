// Text on its way into a picture: from untrusted UTF-8 to code points that are safe to draw, and from there into XML.
#ifndef ATTEND_TOOLS_HEATMAP_TEXT_H_
#define ATTEND_TOOLS_HEATMAP_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/heatmap/font.h"

namespace attend::tools {

// The code points of utf8. U+FFFD stands for each byte that is not UTF-8, and for characters that would break the XML
// or the line they stand in: controls, line separators, direction overrides, noncharacters.
std::u32string drawable(std::string_view utf8);

// text, cut and ended with an ellipsis if it is wider than max_width pixels.
std::u32string elided(std::u32string_view text, FontSize size, std::int64_t max_width);

// UTF-8 for XML text and attribute values: & < > " ' are escaped. text comes from drawable().
std::string to_xml(std::u32string_view text);

// A number as readers of any country write it in code: a point, no thousands separators, whatever the locale.
std::string to_text(std::int64_t number);
std::string to_text(double number, int significant_digits);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_TEXT_H_
