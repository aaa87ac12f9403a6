// Text placed by its anchor point, with the room that it takes.
#ifndef ATTEND_TOOLS_HEATMAP_TEXT_RUN_H_
#define ATTEND_TOOLS_HEATMAP_TEXT_RUN_H_

#include <cstdint>
#include <string>

#include "tools/heatmap/layout.h"

namespace attend::tools {

// (x, y) is on the baseline.
TextRun horizontal_text(std::u32string text, FontSize size, Anchor anchor, std::int64_t x, std::int64_t y);

// Reads upwards; (x, y) is on the baseline, which is vertical.
TextRun rotated_text(std::u32string text, FontSize size, Anchor anchor, std::int64_t x, std::int64_t y);

// From where the text starts to its anchor point, in reading direction.
std::int64_t anchor_offset(Anchor anchor, std::int64_t text_width);

// From the middle of a line to its baseline: half a capital letter.
std::int64_t half_cap_height(FontSize size);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_TEXT_RUN_H_
