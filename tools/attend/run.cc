// attend run: a layer on files.
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/options.h"
#include "tools/attend/outputs.h"
#include "tools/attend/problem.h"
#include "tools/attend/progress.h"
#include "tools/attend/tune.h"

namespace attend::tools {
namespace {

// Counts the tiles of a factored additive score, if that is to be explained and is what the planner chooses.
Plan make_plan(const Problem& problem, bool explain) {
  Plan plan = problem.layer.attention.plan(problem.shape, problem.options);
  if (!explain || !plan.path().starts_with("additive/factored")) return plan;
  PlanOptions counting = problem.options;
  counting.count_tiers = true;
  return problem.layer.attention.plan(problem.shape, counting);
}

double timed_run(const Plan& plan, int threads, const Data& data, Workspace& workspace, Results& results) {
  const std::unique_ptr<Executor> executor = make_executor(threads);
  const Progress progress("running " + std::string(plan.path()));
  const auto start = std::chrono::steady_clock::now();
  plan.run(data.inputs(), results.outputs(), workspace, *executor);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Data read_data(const InputWords& words, io::Notices& notices) {
  const Progress progress("reading inputs");
  return load_data(words, notices);
}

void stage(const OutputWords& words, const Results& results, OutputFiles& files) {
  const Progress progress("writing " + words.output);
  files.add(words.output, results.output.view());
  files.add(words.attention_weights, results.attention_weights.view());
}

std::string sizes_text(const char* name, const Tensor& tensor) {
  return tensor.sizes.empty() ? "" : std::string(", ") + name + " " + to_string(tensor.sizes);
}

std::string summary(const Problem& problem, const Plan& plan, const Data& data, const Results& results,
                    double seconds) {
  const int threads = problem.options.threads;
  return std::string(problem.layer.attention.name()) + ", path " + std::string(plan.path()) + ", target " +
         std::string(plan.target_name()) + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
         ", " + duration_text(seconds) + sizes_text("queries", data.queries) + sizes_text("keys", data.keys) +
         sizes_text("values", data.values) + sizes_text("output", results.output) +
         sizes_text("attention_weights", results.attention_weights);
}

void run_layer(const Words& words, const TuneWords& tune_words) {
  check_writable(words.outputs.output);
  check_writable(words.outputs.attention_weights);
  io::Notices notices;
  Problem problem = prepare(words, notices);
  const std::optional<Profile> profile = load_profile(tune_words);
  if (profile) problem.options.profile = &*profile;
  const Plan plan = make_plan(problem, words.explain);
  const Data data = read_data(words.inputs, notices);
  print_notes(notices);
  Results results = allocate_results(problem, plan, words.outputs.wants_weights);
  Workspace workspace = make_workspace(plan);
  const double seconds = timed_run(plan, problem.options.threads, data, workspace, results);
  OutputFiles files;
  stage(words.outputs, results, files);
  if (!words.quiet) std::cout << summary(problem, plan, data, results, seconds) << '\n';
  if (words.explain) {
    std::cout << (plan.path().starts_with("additive/factored") ? plan.explain(workspace) : plan.explain());
  }
  flush_stdout();
  files.commit();
}

}  // namespace

Command add_run(CLI::App& app) {
  const auto words = std::make_shared<Words>();
  const auto tune_words = std::make_shared<TuneWords>();
  CLI::App* parser = app.add_subcommand("run", "Runs a layer on files and writes its output and attention weights.");
  add_words(*parser, Subcommand::kRun, *words);
  add_tune_words(*parser, Subcommand::kRun, *tune_words);
  parser->add_flag("--quiet", words->quiet, "No summary on stdout.");
  parser->add_flag(
      "--explain", words->explain,
      "Also prints the plan, its reasons, and how many tiles of an additive score were\ncomputed in which way.");
  parser->footer(
      std::string(kLettersText) +
      "Nothing is written unless everything succeeds; files are replaced at once. No output may be an input.\n\n"
      "Example:\n"
      "  attend run --layer multi-head --num-heads 4 --weights model.safetensors \\\n"
      "      --prefix encoder.layers.0.self_attn. --queries x.npz:queries --valid-lens x.npz:valid_lens \\\n"
      "      --output out.npy --attention-weights weights.npy");
  return {parser, [words, tune_words] { run_layer(*words, *tune_words); }};
}

}  // namespace attend::tools
