// What the tests of pictures share: heatmaps, a PNG decoder and a checker of XML.
#ifndef ATTEND_TESTS_TOOLS_HEATMAP_SUPPORT_H_
#define ATTEND_TESTS_TOOLS_HEATMAP_SUPPORT_H_

#include <doctest/doctest.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/heatmap/colour_map.h"
#include "tools/heatmap/heatmap.h"
#include "tools/heatmap/layout.h"

namespace attend::tools::testing {

struct Size {
  std::int64_t rows;
  std::int64_t columns;
};

// Panels of a bright diagonal in the dark.
inline Heatmap diagonal(std::int64_t num_panels, std::int64_t rows, std::int64_t columns) {
  Heatmap heatmap{
      .title = "Diagonal", .panels = {}, .rows = rows, .columns = columns, .row_labels = {}, .column_labels = {}};
  for (std::int64_t i = 0; i < num_panels; ++i) {
    Panel panel{.title = "head " + std::to_string(i),
                .weights = std::vector<float>(static_cast<std::size_t>(rows * columns))};
    for (std::int64_t row = 0; row < rows; ++row) {
      panel.weights[static_cast<std::size_t>(row * columns + row * columns / rows)] = 1.0F;
    }
    heatmap.panels.push_back(std::move(panel));
  }
  return heatmap;
}

inline std::vector<std::string> repeated(const std::vector<std::string>& words, std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(words[static_cast<std::size_t>(i) % words.size()]);
  return labels;
}

struct DecodedPng {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<png_byte> rgb;
  Colour at(std::int64_t x, std::int64_t y) const {
    const png_byte* pixel = rgb.data() + (y * width + x) * 3;
    return {pixel[0], pixel[1], pixel[2]};
  }
  Colour middle_of(const Box& box) const { return at(box.x + box.width / 2, box.y + box.height / 2); }
};

// With libpng's simplified reader: another code path than the one that wrote.
inline DecodedPng decode(const std::string& bytes) {
  png_image image;
  std::memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) != 0);
  CHECK(image.format == PNG_FORMAT_RGB);
  DecodedPng decoded{.width = image.width, .height = image.height, .rgb = {}};
  decoded.rgb.resize(PNG_IMAGE_SIZE(image));
  REQUIRE(png_image_finish_read(&image, nullptr, decoded.rgb.data(), 0, nullptr) != 0);
  return decoded;
}

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// What is wrong with an XML document of elements, double-quoted attributes and text; empty if nothing is.
inline std::string xml_fault(std::string_view xml) {
  std::vector<std::string> open;
  bool has_root = false;
  const auto references_are_fine = [](std::string_view text) {
    for (auto at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
      bool known = false;
      for (const std::string_view name : {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"}) {
        known = known || text.substr(at, name.size()) == name;
      }
      if (!known) return false;
    }
    return true;
  };
  for (const char c : xml) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return "control character";
  }
  std::size_t at = xml.find("?>") + 2;
  while (at < xml.size()) {
    if (xml[at] != '<') {
      const std::size_t end = std::min(xml.find('<', at), xml.size());
      const std::string_view text = xml.substr(at, end - at);
      if (!references_are_fine(text)) return "bare & in " + std::string(text);
      if (open.empty() && text.find_first_not_of('\n') != std::string_view::npos) return "text outside the root";
      at = end;
      continue;
    }
    // The end of the tag: the first > outside quotes, since attributes may hold one.
    std::size_t end = at;
    bool quoted = false;
    while (++end < xml.size() && (quoted || xml[end] != '>')) {
      if (xml[end] == '"') quoted = !quoted;
      if (xml[end] == '<') return "< in a tag";
    }
    if (end >= xml.size()) return "a tag does not end";
    const std::string_view tag = xml.substr(at + 1, end - at - 1);
    if (!references_are_fine(tag)) return "bare & in " + std::string(tag);
    const std::string name(tag.substr(0, tag.find_first_of(" /", 1)));
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != std::string(tag)) return "unexpected " + std::string(tag);
      open.pop_back();
    } else {
      if (open.empty() && std::exchange(has_root, true)) return "two roots";
      if (tag.back() != '/') open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

}  // namespace attend::tools::testing

#endif  // ATTEND_TESTS_TOOLS_HEATMAP_SUPPORT_H_
