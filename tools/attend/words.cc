#include "tools/attend/words.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/attend/command.h"
#include "tools/io/links.h"
#include "tools/io/spec.h"

namespace attend::tools {
namespace {

namespace fs = std::filesystem;

bool given(const CLI::App& app, const std::string& word) {
  const CLI::Option* option = app.get_option_no_throw(word);
  return option != nullptr && option->count() > 0;
}

// Throws if word was given and does not belong to the layer.
void check_belongs(const CLI::App& app, const LayerWords& layer, const std::string& word, bool belongs,
                   const std::string& owners) {
  if (belongs || !given(app, word)) return;
  if (layer.kind == LayerKind::kAuto) wrong_usage(word + " belongs to " + owners + ": say which with --layer");
  wrong_usage(word + " belongs to " + owners + ", not to this --layer");
}

bool has_parameters(LayerKind kind) {
  return kind == LayerKind::kAdditive || kind == LayerKind::kBilinear || kind == LayerKind::kMultiHead;
}

// Throws unless heads divide the hidden units, and heads of keys and values the heads of queries, and scores have them.
void check_heads(const LayerWords& layer) {
  const std::int64_t heads = layer.num_heads.value_or(1);
  if (layer.kind == LayerKind::kMultiHead && layer.num_hiddens.value_or(heads) % heads != 0) {
    wrong_usage("--num-hiddens: " + std::to_string(*layer.num_hiddens) + ", expected a multiple of --num-heads, " +
                std::to_string(heads));
  }
  if (!layer.num_kv_heads) return;
  const std::int64_t kv_heads = *layer.num_kv_heads;
  if (heads % kv_heads != 0) {
    wrong_usage("--num-kv-heads: " + std::to_string(kv_heads) + ", expected a divisor of --num-heads, " +
                std::to_string(heads));
  }
  if (layer.additive_scoring && kv_heads != heads) {
    wrong_usage("--num-kv-heads belongs to dot scoring, not to --scoring additive");
  }
}

void check_layer_words(const CLI::App& app, const Words& words) {
  const LayerWords& layer = words.layer;
  const LayerKind kind = layer.kind;
  const bool multi_head = kind == LayerKind::kMultiHead;
  const bool no_parameters = kind == LayerKind::kDot || kind == LayerKind::kGaussian;
  check_belongs(app, layer, "--num-heads", multi_head || (no_parameters && !words.inputs.shape.empty()),
                no_parameters ? "multi-head (dot and gaussian take heads as an axis of their inputs, (B, H, N, D))"
                              : "multi-head");
  check_belongs(app, layer, "--num-kv-heads", multi_head || (no_parameters && !words.inputs.shape.empty()),
                no_parameters ? "multi-head (dot and gaussian take heads as an axis of their inputs, (B, HKV, N, D))"
                              : "multi-head");
  check_heads(layer);
  check_belongs(app, layer, "--scoring", multi_head, "multi-head");
  check_belongs(app, layer, "--scale", multi_head || kind == LayerKind::kDot || kind == LayerKind::kBilinear,
                "dot, bilinear and multi-head");
  if (multi_head && layer.additive_scoring && layer.scale) {
    wrong_usage("--scale belongs to dot scoring, not to --scoring additive");
  }
  check_belongs(app, layer, "--sigma", kind == LayerKind::kGaussian, "gaussian");
  check_belongs(app, layer, "--weights", !no_parameters, "additive, bilinear and multi-head");
  check_belongs(app, layer, "--num-hiddens", multi_head || kind == LayerKind::kAdditive, "additive and multi-head");
  if (given(app, "--num-hiddens") && !layer.weights.empty()) {
    wrong_usage("--num-hiddens is for made-up parameters, expected no --weights beside it");
  }
  if (given(app, "--prefix") && layer.weights.empty()) wrong_usage("--prefix is of no use without --weights");
  check_belongs(app, layer, "--head-layout", no_parameters, "dot and gaussian");
  if (given(app, "--head-layout") && !given(app, "--measure") && !given(app, "--tune")) {
    wrong_usage("--head-layout is of no use without --measure or --tune");
  }
}

void check_input_words(const CLI::App& app, Subcommand subcommand, const Words& words) {
  if (words.mask.skip_padded_queries && words.inputs.shape.empty() && words.inputs.valid_lens.empty()) {
    wrong_usage("--skip-padded-queries is of no use without --valid-lens");
  }
  if (subcommand == Subcommand::kRun) {
    if (has_parameters(words.layer.kind) && words.layer.weights.empty()) {
      wrong_usage("--weights is required: this --layer has parameters");
    }
    return;
  }
  const bool shape = !words.inputs.shape.empty();
  if (!shape && words.inputs.queries.empty()) wrong_usage("--queries or --shape is required");
  if (!shape) return;
  for (const char* word : {"--queries", "--keys", "--values", "--valid-lens"}) {
    if (given(app, word))
      wrong_usage(std::string(word) + " and --shape exclude each other: sizes come from files or from words");
  }
}

// What a path leads to, whatever it is called and whether or not it is there yet: links and dots resolved, from the
// root. weakly_canonical alone leaves "x.npy" relative while it does not exist, but not "./x.npy". Circles of links are
// left to those who write.
fs::path identity_of(const std::string& path) {
  std::error_code error;
  const fs::path goal = fs::absolute(io::follow_links(path, error), error);
  const fs::path real = fs::weakly_canonical(goal, error);
  return error ? goal : real;
}

// other: also a tensor in a file, file.npz:name.
void check_not_same(const FileWord& one, const FileWord& other) {
  if (one.second.empty() || other.second.empty()) return;
  const fs::path identity = identity_of(one.second);
  if (identity != identity_of(other.second) && identity != identity_of(io::parse_spec(other.second).path)) return;
  wrong_usage(one.first + " and " + other.first + " are the same file, '" + one.second + "'");
}

// What is written must be what the same name reads.
void check_is_file(const std::string& word, const std::string& path, const std::string& ending) {
  const io::Spec spec = io::parse_spec(path);
  if (ending != ".npy" || !spec.name) return;
  wrong_usage(word + ": '" + path + "', expected a file name, but this names tensor '" + *spec.name + "' of '" +
              spec.path + "'");
}

void check_output_words(const CLI::App& app, const OutputWords& words) {
  if (!words.output.empty()) check_ending("--output", words.output, {".npy"});
  if (!words.attention_weights.empty()) check_ending("--attention-weights", words.attention_weights, {".npy"});
  std::vector<FileWord> inputs;
  for (const char* word : {"--queries", "--keys", "--values", "--valid-lens", "--weights", "--profile"}) {
    if (given(app, word)) inputs.emplace_back(word, app.get_option(word)->as<std::string>());
  }
  check_apart({{"--output", words.output}, {"--attention-weights", words.attention_weights}}, inputs);
}

}  // namespace

void check_not_empty(const CLI::App& app, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (given(app, word) && app.get_option(word)->as<std::string>().empty()) wrong_usage(word + " is empty");
  }
}

void check_ending(const std::string& word, const std::string& path, const std::vector<std::string>& endings) {
  std::string expected;
  for (const std::string& ending : endings) {
    if (path.ends_with(ending) && path.size() > ending.size()) return check_is_file(word, path, ending);
    expected += (expected.empty() ? "" : " or ") + ending;
  }
  wrong_usage(word + ": '" + path + "', expected a file name that ends with " + expected);
}

void check_apart(const std::vector<FileWord>& outputs, const std::vector<FileWord>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = i + 1; j < outputs.size(); ++j) check_not_same(outputs[i], outputs[j]);
    for (const FileWord& input : inputs) check_not_same(outputs[i], input);
  }
}

void check_words(const CLI::App& app, Subcommand subcommand, const Words& words) {
  check_not_empty(app, {"--weights", "--queries", "--keys", "--values", "--valid-lens", "--output", "--target"});
  if (writes_outputs(subcommand)) check_not_empty(app, {"--attention-weights"});
  check_layer_words(app, words);
  check_input_words(app, subcommand, words);
  if (writes_outputs(subcommand)) check_output_words(app, words.outputs);
}

}  // namespace attend::tools
