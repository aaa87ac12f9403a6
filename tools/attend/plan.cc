// attend plan: what a run would do, and why. Reads no data but the weights.
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/options.h"
#include "tools/attend/problem.h"

namespace attend::tools {
namespace {

void explain_plan(const Words& words) {
  io::Notices notices;
  const Problem problem = prepare(words, notices);
  const Plan plan = problem.layer.attention.plan(problem.shape, problem.options);
  print_notes(notices);
  const std::string text = plan.explain();
  std::cout << text << (text.ends_with('\n') ? "" : "\n");
}

}  // namespace

Command add_plan(CLI::App& app) {
  const auto words = std::make_shared<Words>();
  CLI::App* parser =
      app.add_subcommand("plan", "Says what a run would do and why: path, tiles, target, workspace, work.");
  add_words(*parser, Subcommand::kPlan, *words);
  parser->footer(
      "Takes the words of run. Of the inputs only the sizes are read.\n\n"
      "Example:\n  attend plan --layer dot --shape 8,128,128,64 --attention-weights --threads 4");
  return {parser, [words] { explain_plan(*words); }};
}

}  // namespace attend::tools
