#include "tools/heatmap/text_run.h"

#include <utility>

namespace attend::tools {

TextRun horizontal_text(std::u32string text, FontSize size, Anchor anchor, std::int64_t x, std::int64_t y) {
  const FontMetrics metrics = metrics_of(size);
  const std::int64_t width = width_of(size, text);
  const Box box = {x - anchor_offset(anchor, width), y - metrics.ascent, width, metrics.line_height()};
  return {.text = std::move(text), .size = size, .anchor = anchor, .rotated = false, .x = x, .y = y, .box = box};
}

TextRun rotated_text(std::u32string text, FontSize size, Anchor anchor, std::int64_t x, std::int64_t y) {
  const FontMetrics metrics = metrics_of(size);
  const std::int64_t width = width_of(size, text);
  const std::int64_t start = y + anchor_offset(anchor, width);
  const Box box = {x - metrics.ascent, start - width, metrics.line_height(), width};
  return {.text = std::move(text), .size = size, .anchor = anchor, .rotated = true, .x = x, .y = y, .box = box};
}

std::int64_t anchor_offset(Anchor anchor, std::int64_t text_width) {
  switch (anchor) {
    case Anchor::kStart:
      return 0;
    case Anchor::kMiddle:
      return text_width / 2;
    case Anchor::kEnd:
      return text_width;
  }
  return 0;
}

std::int64_t half_cap_height(FontSize size) { return (metrics_of(size).cap_height + 1) / 2; }

}  // namespace attend::tools
