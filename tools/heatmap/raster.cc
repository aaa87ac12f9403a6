#include "tools/heatmap/raster.h"

#include <algorithm>
#include <cstddef>

#include "tools/heatmap/survey.h"
#include "tools/heatmap/text_run.h"

namespace attend::tools {
namespace {

constexpr int kFullCoverage = 15;

std::uint8_t mix(std::uint8_t paper, std::uint8_t ink, int coverage) {
  return static_cast<std::uint8_t>((paper * (kFullCoverage - coverage) + ink * coverage + kFullCoverage / 2) /
                                   kFullCoverage);
}

int coverage_of(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

// Calls put(u, v, coverage) for the pixels of a character: u along the text from its origin, v down from the baseline.
template <class Put>
void for_each_pixel(FontSize size, char32_t code, const Put& put) {
  if (const Glyph* glyph = find_glyph(size, code)) {
    std::size_t i = 0;
    for (std::int64_t v = 0; v < glyph->height; ++v) {
      for (std::int64_t u = 0; u < glyph->width; ++u) {
        put(glyph->left + u, v - glyph->top, coverage_of(glyph->coverage[i++]));
      }
    }
    return;
  }
  // A box, one pixel from its neighbours on either side; too narrow a character (a joiner) has none.
  const std::int64_t right = advance_of(size, code) - 2;
  const std::int64_t height = metrics_of(size).cap_height;
  for (std::int64_t v = -height; v < 0; ++v) {
    for (std::int64_t u = 1; u <= right; ++u) {
      const bool edge = u == 1 || u == right || v == -height || v == -1;
      if (edge) put(u, v, kFullCoverage);
    }
  }
}

}  // namespace

Raster::Raster(std::int64_t width, std::int64_t height)
    : width_(width), height_(height), pixels_(static_cast<std::size_t>(width * height * 3), kPaper.red) {
  static_assert(kPaper.red == kPaper.green && kPaper.green == kPaper.blue);
}

void Raster::fill(const Box& box, Colour colour) {
  const std::int64_t left = std::max<std::int64_t>(box.x, 0);
  const std::int64_t right = std::min(box.right(), width_);
  for (std::int64_t y = std::max<std::int64_t>(box.y, 0); y < std::min(box.bottom(), height_); ++y) {
    std::uint8_t* pixel = pixels_.data() + (y * width_ + left) * 3;
    for (std::int64_t x = left; x < right; ++x) {
      *pixel++ = colour.red;
      *pixel++ = colour.green;
      *pixel++ = colour.blue;
    }
  }
}

void Raster::draw(const TextRun& run, Colour colour) {
  std::int64_t pen = -anchor_offset(run.anchor, width_of(run.size, run.text));
  for (const char32_t code : run.text) {
    for_each_pixel(run.size, code, [&](std::int64_t u, std::int64_t v, int coverage) {
      const std::int64_t along = pen + u;
      // A quarter turn takes the pixel from along to along + 1 up to the one that ends at y - along.
      if (run.rotated) {
        blend(run.x + v, run.y - along - 1, coverage, colour);
      } else {
        blend(run.x + along, run.y + v, coverage, colour);
      }
    });
    pen += advance_of(run.size, code);
  }
}

void Raster::blend(std::int64_t x, std::int64_t y, int coverage, Colour colour) {
  if (x < 0 || x >= width_ || y < 0 || y >= height_) return;
  std::uint8_t* const pixel = pixels_.data() + (y * width_ + x) * 3;
  pixel[0] = mix(pixel[0], colour.red, coverage);
  pixel[1] = mix(pixel[1], colour.green, coverage);
  pixel[2] = mix(pixel[2], colour.blue, coverage);
}

void draw_cells(const Heatmap& heatmap, const Panel& panel, const Layout& layout, const Box& where, Raster& raster) {
  const std::vector<float> weights = block_maxima(heatmap, panel, layout.rows_per_cell, layout.columns_per_cell);
  auto weight = weights.begin();
  for (std::int64_t row = 0; row < layout.cell_rows; ++row) {
    for (std::int64_t column = 0; column < layout.cell_columns; ++column) {
      raster.fill(layout.cell_box(where, row, column), colour_of(*weight++, layout.scale.end));
    }
  }
}

}  // namespace attend::tools
