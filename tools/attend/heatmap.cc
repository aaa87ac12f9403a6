// attend heatmap: a picture of attention weights, one panel per head.
#include "tools/heatmap/heatmap.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "attend/io.h"
#include "tools/attend/argument.h"
#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/memory.h"
#include "tools/attend/numbers.h"
#include "tools/attend/outputs.h"
#include "tools/attend/progress.h"
#include "tools/attend/words.h"

namespace attend::tools {
namespace {

struct HeatmapWords {
  std::string attention_weights, row_labels, column_labels, output, title;
  std::int64_t batch = 0;
  std::optional<std::int64_t> head;  // none: all
};

// Any of (M, N), (B, M, N) and (B, H, M, N), seen as (B, H, M, N).
struct Weights {
  std::int64_t batch, heads, rows, columns;
  bool has_heads;
  Tensor tensor;

  float at(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t column) const {
    return tensor.data[static_cast<std::size_t>(((b * heads + h) * rows + row) * columns + column)];
  }
};

Weights load_weights(const std::string& file) {
  io::Notices notices;
  Tensor tensor = read_argument("--attention-weights", [&] { return io::load_tensor(file, &notices); });
  print_notes(notices);
  std::vector<std::int64_t> s = tensor.sizes;
  const std::size_t rank = s.size();
  if (rank < 2)
    throw Error(file + ": attention weights have sizes " + to_string(s) +
                ", expected (M, N), (B, M, N) or (B, H, M, N)");
  if (rank == 2) s.insert(s.begin(), 1);
  if (rank < 4) s.insert(s.begin() + 1, 1);
  if (std::count(s.begin(), s.end(), 0) > 0)
    throw Error(file + ": attention weights have sizes " + to_string(tensor.sizes) + ": nothing to draw");
  return {
      .batch = s[0], .heads = s[1], .rows = s[2], .columns = s[3], .has_heads = rank == 4, .tensor = std::move(tensor)};
}

// The weights have count of what is called one or many.
void check_index(const std::string& word, std::int64_t index, std::int64_t count, const char* one, const char* many) {
  if (index < count) return;
  throw Error(word + " is " + std::to_string(index) + ", expected 0" +
              (count > 1 ? " to " + std::to_string(count - 1) : "") + ": the attention weights have " +
              std::to_string(count) + " " + (count == 1 ? one : many));
}

// The labels of one batch entry: the file has one block for each entry, or one for all.
std::vector<std::string> labels_for(const std::string& word, const std::string& file, const HeatmapWords& words,
                                    const Weights& weights) {
  if (file.empty()) return {};
  std::vector<std::vector<std::string>> blocks = read_argument(word, [&] { return io::load_labels(file); });
  const auto count = static_cast<std::int64_t>(blocks.size());
  if (count == 0 || (count != 1 && count != weights.batch)) {
    throw Error(file + ": " + std::to_string(count) + " blocks of labels, expected 1 or one for each of the " +
                std::to_string(weights.batch) + " batch entries");
  }
  std::vector<std::string> labels = std::move(blocks[count == 1 ? 0 : static_cast<std::size_t>(words.batch)]);
  const bool of_rows = word == "--row-labels";
  const std::int64_t most = of_rows ? weights.rows : weights.columns;
  if (static_cast<std::int64_t>(labels.size()) > most) {
    throw Error(file + ": " + std::to_string(labels.size()) + " labels for batch entry " + std::to_string(words.batch) +
                ", the attention weights have " + std::to_string(most) + (of_rows ? " rows" : " columns"));
  }
  return labels;
}

Panel panel_of(const Weights& weights, std::int64_t batch, std::int64_t head, std::int64_t rows, std::int64_t columns) {
  Panel panel{.title = weights.has_heads ? "head " + std::to_string(head) : "", .weights = {}};
  panel.weights.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column)
      panel.weights.push_back(weights.at(batch, head, row, column));
  }
  return panel;
}

// Labels fewer than rows or columns say where the padding starts: the picture ends there.
Heatmap heatmap_of(const HeatmapWords& words, const Weights& weights) {
  if (!words.head && weights.heads > kMaxPanels) {
    throw Error(words.attention_weights + ": attention weights have " + std::to_string(weights.heads) +
                " heads, expected at most " + std::to_string(kMaxPanels) + " in one picture; --head J draws one");
  }
  Heatmap heatmap;
  heatmap.title = words.title;
  heatmap.row_labels = labels_for("--row-labels", words.row_labels, words, weights);
  heatmap.column_labels = labels_for("--column-labels", words.column_labels, words, weights);
  heatmap.rows = words.row_labels.empty() ? weights.rows : static_cast<std::int64_t>(heatmap.row_labels.size());
  heatmap.columns =
      words.column_labels.empty() ? weights.columns : static_cast<std::int64_t>(heatmap.column_labels.size());
  const std::int64_t first = words.head.value_or(0);
  const std::int64_t end = words.head ? first + 1 : weights.heads;
  for (std::int64_t head = first; head < end; ++head) {
    heatmap.panels.push_back(panel_of(weights, words.batch, head, heatmap.rows, heatmap.columns));
  }
  return heatmap;
}

void draw(const HeatmapWords& words) {
  check_writable(words.output);
  const Weights weights = load_weights(words.attention_weights);
  check_index("--batch", words.batch, weights.batch, "batch entry", "batch entries");
  if (words.head) check_index("--head", *words.head, weights.heads, "head", "heads");
  const Progress progress("drawing " + words.output);
  const std::string picture = with_memory_for("the picture", [&] {
    const Heatmap heatmap = heatmap_of(words, weights);
    return words.output.ends_with(".svg") ? render_svg(heatmap) : render_png(heatmap);
  });
  OutputFiles files;
  files.add(words.output, picture);
  files.commit();
}

std::optional<std::int64_t> parse_head(const std::string& text) {
  if (text == "all") return std::nullopt;
  return parse_whole("--head", text, 0, kNoLimit, ", or all");
}

}  // namespace

Command add_heatmap(CLI::App& app) {
  const auto words = std::make_shared<HeatmapWords>();
  CLI::App* parser = app.add_subcommand("heatmap", "Draws attention weights: who looks where, one panel per head.");
  parser
      ->add_option("--attention-weights", words->attention_weights,
                   "Of M queries (rows) to N keys (columns), as attend run writes them: (B, M, N),\n(B, H, M, N) or "
                   "(M, N), B batch entries, H heads; file.npy, file.npz:name or\nfile.safetensors:name.")
      ->option_text("FILE")
      ->required();
  parser
      ->add_option(
          "--row-labels", words->row_labels,
          "Text, one label a line, for the M queries; a block for each batch entry,\nblank lines between, or one "
          "block for all. Fewer labels than rows cut the\npicture: the rest is padding. Default: indices.")
      ->option_text("FILE");
  parser->add_option("--column-labels", words->column_labels, "The same for the N keys. Default: indices.")
      ->option_text("FILE");
  parser
      ->add_option_function<std::string>(
          "--batch", [words](const std::string& text) { words->batch = parse_whole("--batch", text, 0); },
          "Which batch entry, from 0. Default: 0.")
      ->option_text("I");
  parser
      ->add_option_function<std::string>(
          "--head", [words](const std::string& text) { words->head = parse_head(text); },
          "Which head, from 0, or all. Default: all.")
      ->option_text("J");
  parser->add_option("--title", words->title, "Stands above the picture. Default: nothing.")->option_text("TEXT");
  parser->add_option("--output", words->output, "The picture: .png or .svg.")->option_text("FILE")->required();
  parser->footer(
      "Example:\n"
      "  attend heatmap --attention-weights weights.npy --row-labels iso.txt --column-labels written.txt \\\n"
      "      --batch 3 --output alignment.png");
  parser->callback([words, parser] {
    check_not_empty(*parser, {"--attention-weights", "--row-labels", "--column-labels"});
    check_ending("--output", words->output, {".png", ".svg"});
    check_apart({{"--output", words->output}}, {{"--attention-weights", words->attention_weights},
                                                {"--row-labels", words->row_labels},
                                                {"--column-labels", words->column_labels}});
  });
  return {parser, [words] { draw(*words); }};
}

}  // namespace attend::tools
