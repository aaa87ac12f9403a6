#include "tools/attend/options.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "attend/executor.h"
#include "tools/attend/choice.h"
#include "tools/attend/command.h"
#include "tools/attend/numbers.h"
#include "tools/attend/words.h"

namespace attend::tools {
namespace {

constexpr int kMaxThreads = 1024;
constexpr const char* kLayerGroup = "Layer";

// may_be_zero: there may be no batch entries, queries or keys, but each of them has elements.
std::int64_t shape_entry(std::string_view text, std::string_view shape, bool may_be_zero) {
  std::int64_t entry = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), entry);
  const bool is_number = end == text.data() + text.size() && !text.starts_with('-');
  const auto refuse = [&](const std::string& fault) { wrong_usage("--shape: '" + std::string(shape) + "'" + fault); };
  if (is_number && error == std::errc::result_out_of_range) {
    refuse(": size " + std::string(text) + ", expected at most " + std::to_string(kNoLimit));
  }
  if (!is_number || error != std::errc()) {
    refuse(": '" + std::string(text) + "' is not a size, expected whole numbers like 8,128,128,64");
  }
  if (entry == 0 && !may_be_zero) refuse(": a query, key or value of size 0, expected 1 or more");
  return entry;
}

// "B,M,N[,Dq[,Dk[,Dv]]]"
std::vector<std::int64_t> parse_shape(std::string_view text) {
  if (text.empty()) wrong_usage("--shape is empty");
  std::vector<std::int64_t> shape;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    shape.push_back(shape_entry(text.substr(start, comma - start), text, shape.size() < 3));
    start = comma + 1;
  }
  if (shape.size() < 3 || shape.size() > 6) {
    wrong_usage("--shape: '" + std::string(text) + "', expected 3 to 6 sizes, B,M,N[,Dq[,Dk[,Dv]]]");
  }
  return shape;
}

// A whole number from 1 on.
CLI::Option& add_whole(CLI::App& app, const std::string& word, std::optional<std::int64_t>& number,
                       const std::string& description) {
  return *app.add_option_function<std::string>(
      word, [word, &number](const std::string& text) { number = parse_whole(word, text, 1); }, description);
}

CLI::Option& add_float(CLI::App& app, const std::string& word, std::optional<float>& number,
                       const std::string& description) {
  return *app.add_option_function<std::string>(
      word, [word, &number](const std::string& text) { number = parse_float(word, text); }, description);
}

void add_parameter_words(CLI::App& app, bool may_invent, LayerWords& words) {
  app.add_option("--weights", words.weights,
                 std::string("Parameters of additive, bilinear or multi-head: a .safetensors or .npz\n"
                             "checkpoint with the names of the textbook (W_q.weight), PyTorch\n"
                             "(in_proj_weight), BERT (query.weight) or BART, OPT, CLIP, Whisper\n"
                             "(q_proj.weight).") +
                     (may_invent ? "\nDefault: seeded random numbers." : ""))
      ->option_text("FILE")
      ->group(kLayerGroup);
  app.add_option("--prefix", words.prefix,
                 "What the names in the checkpoint start with, its last dot included, such as\n"
                 "'encoder.layers.0.self_attn.'. Default: nothing.")
      ->option_text("P")
      ->group(kLayerGroup);
}

void add_head_words(CLI::App& app, bool may_invent, LayerWords& words) {
  add_whole(app, "--num-heads", words.num_heads,
            std::string("Heads of multi-head. Default: 1.") +
                (may_invent ? "\nWith --shape also of dot and gaussian, on inputs (B, H, N, D)." : ""))
      .option_text("H")
      ->group(kLayerGroup);
  add_whole(app, "--num-kv-heads", words.num_kv_heads,
            std::string("Heads of keys and values of multi-head with dot scoring, a divisor of\n"
                        "--num-heads H: query head h sees those of head h / (H / HKV). Default: H.") +
                (may_invent ? "\nWith --shape also of dot and gaussian, on inputs (B, HKV, N, D)." : ""))
      .option_text("HKV")
      ->group(kLayerGroup);
  add_choice(app, "--scoring", words.additive_scoring, {{"dot", false}, {"additive", true}},
             "How the heads of multi-head score: dot or additive (needs w_v.weight (H, D)).\nDefault: dot.")
      .option_text("S")
      ->group(kLayerGroup);
}

void add_layer_words(CLI::App& app, bool may_invent, LayerWords& words) {
  add_choice(app, "--layer", words.kind,
             {{"additive", LayerKind::kAdditive},
              {"dot", LayerKind::kDot},
              {"bilinear", LayerKind::kBilinear},
              {"gaussian", LayerKind::kGaussian},
              {"multi-head", LayerKind::kMultiHead},
              {"auto", LayerKind::kAuto}},
             "additive, dot, bilinear, gaussian, multi-head or auto. auto picks by the\n"
             "parameters: W_q, W_k and w_v mean additive, W means bilinear, none mean\n"
             "dot. Default: auto.")
      .option_text("L")
      ->group(kLayerGroup);
  add_parameter_words(app, may_invent, words);
  add_head_words(app, may_invent, words);
  add_float(app, "--scale", words.scale,
            "Factor of the scores of dot, bilinear and multi-head with dot scoring.\n"
            "Default: 1/sqrt(D), D the size of a query or of a head; bilinear: 1.")
      .option_text("X")
      ->group(kLayerGroup);
  add_float(app, "--sigma", words.sigma, "Width of gaussian, whose scores are -|q - k|^2 / (2 X^2). Default: 1.")
      .option_text("X")
      ->group(kLayerGroup);
  if (!may_invent) return;
  add_whole(app, "--num-hiddens", words.num_hiddens,
            "Hidden units of additive, or of all heads of multi-head, when there is no\n"
            "--weights. Default: 64 for additive, 16 a head for multi-head.")
      .option_text("U")
      ->group(kLayerGroup);
}

void add_input_words(CLI::App& app, bool may_invent, InputWords& words) {
  const std::string group = "Inputs (file.npy, file.npz:name or file.safetensors:name; float32, others are converted)";
  CLI::Option* queries = app.add_option("--queries", words.queries, "(B, M, Dq); dot and gaussian also (B, H, M, D).");
  queries->option_text("FILE")->group(group);
  if (!may_invent) queries->required();
  app.add_option("--keys", words.keys,
                 "(B, N, Dk) or (B, H, N, D). With fewer heads than the queries, HKV, a divisor\n"
                 "of theirs, query head h sees head h / (H / HKV). Default: the queries\n"
                 "(self-attention).")
      ->option_text("FILE")
      ->group(group);
  app.add_option("--values", words.values,
                 "(B, N, Dv) or (B, H, N, Dv), as many heads as keys have. Default: the keys.")
      ->option_text("FILE")
      ->group(group);
  app.add_option("--valid-lens", words.valid_lens,
                 "How many keys each batch entry (B) or each query (B, M) sees; int32 or\nint64. Default: all.")
      ->option_text("FILE")
      ->group(group);
  if (!may_invent) return;
  app.add_option_function<std::string>(
         "--shape", [&words](const std::string& text) { words.shape = parse_shape(text); },
         "Instead of files: B,M,N[,Dq[,Dk[,Dv]]], batch, queries and keys per batch\n"
         "entry, then the sizes of a query, a key and a value. Default for these: what\n"
         "the weights say; without weights 64, Dq and Dk.")
      ->option_text("SIZES")
      ->group(group);
}

void add_mask_words(CLI::App& app, MaskWords& words) {
  const std::string group = "Masks, beside the valid lengths";
  add_choice(app, "--causal", words.causal, {{"bottom-right", Causal::kBottomRight}, {"top-left", Causal::kTopLeft}},
             "No query sees its future. bottom-right: query i of M sees keys 0 to N - M + i\n"
             "of N, as the last M of N tokens do; none where that is negative. top-left:\n"
             "keys 0 to i. Default: all keys are seen.")
      .option_text("C")
      ->group(group);
  app.add_flag("--skip-padded-queries", words.skip_padded_queries,
               "For self-attention on padded sequences: leaves out the queries at or beyond the\n"
               "valid length of their batch entry; their output and weights are 0. The lengths\n"
               "are one for each batch entry (B). Default: all queries are computed.")
      ->group(group);
}

const char* output_description(Subcommand subcommand) {
  if (!writes_outputs(subcommand)) return "Accepted as in run; nothing is written.";
  if (subcommand == Subcommand::kCheck)
    return "The output of --target, or else of the best, as .npy. Default: not written.";
  return "The result, .npy: (B, M, Dv), of multi-head (B, M, output size), of inputs with\nheads (B, H, M, Dv).";
}

const char* weights_description(Subcommand subcommand) {
  switch (subcommand) {
    case Subcommand::kPlan:
      return "Plans for runs that ask for weights; the file may be left out.";
    case Subcommand::kTurns:
      return "Both builds compute weights as well; the file may be left out.";
    case Subcommand::kCheck:
      return "The weights of --target, or else of the best, as .npy. Default: not written.";
    case Subcommand::kRun:
      break;
  }
  return "The softmax weights, .npy: (B, M, N), with heads (B, H, M, N).\nDefault: not written.";
}

void add_output_words(CLI::App& app, Subcommand subcommand, OutputWords& words) {
  const std::string group = "Outputs";
  CLI::Option* output = app.add_option("--output", words.output, output_description(subcommand));
  output->option_text("FILE")->group(group);
  if (subcommand == Subcommand::kRun) output->required();
  CLI::Option* weights = app.add_option_function<std::string>(
      "--attention-weights",
      [&words](const std::string& path) {
        if (words.wants_weights) wrong_usage("--attention-weights is given more than once, expected once");
        words.wants_weights = true;
        words.attention_weights = path;
      },
      weights_description(subcommand));
  weights->option_text(writes_outputs(subcommand) ? "FILE" : "[FILE]")->group(group);
  if (!writes_outputs(subcommand)) weights->expected(0, 1)->trigger_on_parse();
  app.add_flag("--concat-queries", words.concat_queries,
               "Each output row is [context; query] (Luong): Dq more columns.")
      ->group(group);
}

// Products that not every CPU makes faster: Way is Pairs or Parts.
template <class Way>
void add_way_word(CLI::App& app, const std::string& word, Way& way, const std::string& what) {
  add_choice(app, word, way, {{"where-faster", Way::kWhereFaster}, {"never", Way::kNever}, {"always", Way::kAlways}},
             "Whether products go by " + what +
                 ":\n"
                 "where-faster, never, or always, which is for tests. About as exact as plain sums,\n"
                 "but the last bits of results differ. Default: where-faster.")
      .option_text("P")
      ->group("Machine");
}

}  // namespace

void wrong_usage(const std::string& message) { throw CLI::ValidationError(message); }

void add_machine_words(CLI::App& app, std::string& target, int& threads, bool has_profile,
                       const std::string& default_target) {
  const std::string group = "Machine";
  app.add_option("--target", target, "Instruction set, one of `attend targets`. Default: " + default_target + ".")
      ->option_text("T")
      ->group(group);
  app.add_option_function<std::string>(
         "--threads",
         [&threads](const std::string& text) {
           threads = static_cast<int>(parse_whole("--threads", text, 0, kMaxThreads));
         },
         std::string("Threads; 0: all CPUs. Results are the same for any number") +
             (has_profile ? ", but see\n--profile. " : ".\n") + "Default: " + std::to_string(threads) + ".")
      ->option_text("N")
      ->group(group);
}

void add_words(CLI::App& app, Subcommand subcommand, Words& words) {
  const bool may_invent = subcommand != Subcommand::kRun;
  const bool takes_profile = subcommand == Subcommand::kRun || subcommand == Subcommand::kPlan;
  add_layer_words(app, may_invent, words.layer);
  add_input_words(app, may_invent, words.inputs);
  add_mask_words(app, words.mask);
  add_output_words(app, subcommand, words.outputs);
  add_machine_words(app, words.target, words.threads, takes_profile,
                    subcommand == Subcommand::kCheck ? "all of them" : "the best");
  add_way_word(app, "--pairs", words.pairs, "pairs of terms, faster on AMD's CPUs from Zen 4 on");
  add_way_word(app, "--parts", words.parts, "bfloat16 parts, faster on Intel's CPUs with AMX");
  app.callback([subcommand, &app, &words] { check_words(app, subcommand, words); });
}

bool writes_outputs(Subcommand subcommand) {
  return subcommand == Subcommand::kRun || subcommand == Subcommand::kCheck;
}

Target target_of(const std::string& name) { return name.empty() ? Target::best() : Target::from_name(name); }

int num_threads(int threads) { return threads == 0 ? ThreadPool::available_threads() : threads; }

}  // namespace attend::tools
