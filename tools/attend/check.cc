// attend check: a layer on every target, with and without attention weights, on one and on several threads, against the
// double reference.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/attend/bound.h"
#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/finding.h"
#include "tools/attend/memory.h"
#include "tools/attend/options.h"
#include "tools/attend/outputs.h"
#include "tools/attend/problem.h"
#include "tools/attend/progress.h"

namespace attend::tools {
namespace {

CheckedRun run_once(const Problem& problem, const PlanOptions& options, const Data& data) {
  const Plan plan = problem.layer.attention.plan(problem.shape, options);
  Results results = allocate_results(problem, plan, options.attention_weights);
  Workspace workspace = make_workspace(plan);
  const std::unique_ptr<Executor> executor = make_executor(options.threads);
  plan.run(data.inputs(), results.outputs(), workspace, *executor);
  return {.results = std::move(results), .path = std::string(plan.path())};
}

// Weights are 0 to 1: within a bound of 1 lies any answer, but NaN and infinity.
bool proves(const Bound& bound) { return bound.attention_weights < 1; }

const char* verdict(const Finding& finding, const Bound& bound) {
  if (!finding.holds(bound)) return "OUT OF CONTRACT";
  return proves(bound) ? "OK" : "NO PROOF";
}

void print_bound(const Problem& problem, const Shape& shape, const Bound& bound, const reference::Result& truth) {
  std::cout << problem.layer.attention.name() << " attention, B " << shape.batch << ", M " << shape.num_queries
            << ", N " << shape.num_keys << ", against the reference in double\n"
            << "bound of attention_weights: " << scientific(bound.attention_weights) << " = 2e-7 (4 + S "
            << truth.max_score_terms << ")";
  if (bound.score_slack > 0) std::cout << " + " << scientific(bound.score_slack) << " for scores from f32 projections";
  std::cout << "\nbound of output: " << scientific(bound.output) << " = ";
  if (problem.layer.kind == LayerKind::kMultiHead) {
    std::cout << "the above on values mapped by W_v and W_o, and the rounding of both\n";
  } else {
    std::cout << "the above times max|value| " << truth.max_abs_value << '\n';
  }
}

void print_finding(const std::string& target, const Finding& finding, const Bound& bound, int threads) {
  std::string name = target;
  name.resize(std::max<std::size_t>(name.size(), 9), ' ');
  std::cout << name << " output " << scientific(finding.output_error) << "  attention_weights "
            << scientific(finding.weights_error) << "  " << verdict(finding, bound) << "  " << finding.paths;
  if (threads > 1) {
    std::cout << (finding.same_bits ? "; same bits on 1 and " : "; DIFFERENT BITS on 1 and ") << threads << " threads";
  }
  std::cout << '\n';
}

Data data_of(const Words& words, const Problem& problem, io::Notices& notices) {
  if (words.inputs.shape.empty()) return load_data(words.inputs, notices);
  return invent_data(problem, problem.layer.attention.plan(problem.shape, problem.options).shape());
}

void save(const OutputWords& words, const Results& results) {
  OutputFiles files;
  files.add(words.output, results.output.view());
  files.add(words.attention_weights, results.attention_weights.view());
  files.commit();
}

struct Truth {
  reference::Result result;
  Bound bound;
};

// A run on the best target comes first: only inputs that it accepts may reach the reference.
Truth truth_of(const Problem& problem, const Data& data) {
  run_once(problem, problem.options, data);
  const Progress progress("reference in double");
  return with_memory_for("the reference in double", [&] {
    Truth known;
    known.result = truth(problem.layer, data.inputs(), problem.mask());
    known.bound = bound_of(problem.layer, data.inputs(), problem.mask(), known.result);
    return known;
  });
}

void check_layer(const Words& words) {
  check_writable(words.outputs.output);
  check_writable(words.outputs.attention_weights);
  io::Notices notices;
  const Problem problem = prepare(words, notices);
  const Data data = data_of(words, problem, notices);
  print_notes(notices);
  const Truth known = truth_of(problem, data);
  if (!proves(known.bound)) {
    print_note("attention weights are 0 to 1, the bound of their errors is " +
               scientific(known.bound.attention_weights) + ": scores too large for float32 to prove anything");
  }
  print_bound(problem, problem.shape, known.bound, known.result);

  const std::vector<Target> targets =
      words.target.empty() ? Target::available() : std::vector<Target>{problem.options.target};
  std::string failed;
  Results best;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    PlanOptions options = problem.options;
    options.target = targets[i];
    Finding finding;
    {
      const Progress progress("checking " + targets[i].name() + ", " + std::to_string(i + 1) + " of " +
                              std::to_string(targets.size()) + " targets");
      finding =
          find_errors([&](const PlanOptions& o) { return run_once(problem, o, data); }, options, data, known.result);
    }
    print_finding(targets[i].name(), finding, known.bound, options.threads);
    if (!finding.holds(known.bound)) failed += (failed.empty() ? "" : ", ") + targets[i].name();
    if (i == 0) best = std::move(finding.results);
  }
  std::cout.flush();
  if (!failed.empty()) throw Error("out of contract on " + failed);
  flush_stdout();
  save(words.outputs, best);
}

}  // namespace

Command add_check(CLI::App& app) {
  const auto words = std::make_shared<Words>();
  words->threads = 2;
  CLI::App* parser = app.add_subcommand("check",
                                        "Runs a layer on every target and compares with a reference in double:\n"
                                        "exit code 1 when errors are beyond their bound (OUT OF CONTRACT).");
  add_words(*parser, Subcommand::kCheck, *words);
  parser->footer(
      std::string(kLettersText) +
      "Layer, inputs, masks and machine are those of run; with --shape, inputs and valid lengths are seeded random\n"
      "numbers. Each target, or only --target, runs with and without attention weights, on 1 and on --threads\n"
      "threads.\n"
      "\n"
      "The bound. Weights, and outputs relative to max|value|, may differ from the truth by 2e-7 (4 + S); S is the\n"
      "largest |score|, or of dot products, whose terms may cancel, the largest sum |scale q_i k_i|.\n"
      "Where a layer projects first, in f32, that moves its scores; added is then, at 6 standard deviations of f32\n"
      "rounding (sigma: of one projected element; norms and sigmas: the largest of any row),\n"
      "  additive    4e-7 sum|w_v| + 6 sqrt(sum w_v^2 (sigma_q^2 + sigma_k^2))\n"
      "  bilinear    6 |scale| max(|q| sigma(W k), |k| sigma(W^T q))\n"
      "  multi-head  6 |scale| sqrt(sigma_q^2 |k_h|^2 + |q_h|^2 sigma_k^2); additive scoring as additive\n"
      "The output of multi-head is held to the same relative to its values mapped by W_o, and to the rounding of\n"
      "projected values and of the last product. Results must have the same bits on 1 and on --threads threads.\n"
      "Vectors of equal elements, and equal keys with equal values, may come to twelve times that: their roundings "
      "agree.\n"
      "NO PROOF: scores are so large that this bound is 1 or more, which all weights are within; exit code 0.\n"
      "\n"
      "Example:\n"
      "  attend check --layer additive --shape 8,20,30,64,48,32");
  return {parser, [words] { check_layer(*words); }};
}

}  // namespace attend::tools
