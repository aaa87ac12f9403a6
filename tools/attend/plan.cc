// attend plan: what a run would do, why, and how long that takes. Reads no data but the weights.
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
#include "tools/attend/tune.h"

namespace attend::tools {
namespace {

Plan make_plan(Problem& problem, const TuneWords& tune_words) {
  const std::optional<Profile> profile = load_profile(tune_words);
  problem.options.profile = profile ? &*profile : nullptr;
  Plan plan = problem.layer.attention.plan(problem.shape, problem.options);
  problem.options.profile = nullptr;
  return plan;
}

void tune_plan(const Problem& problem, const TuneWords& tune_words, const io::Notices& notices) {
  const Tuning tuning = tune(problem, tune_words);
  print_notes(notices);
  const std::string timing = timing_text(problem, tuning.plan, tune_words);  // before anything is printed: it may fail
  // Last: another process may have added an entry meanwhile.
  OutputFiles files;
  files.add(tune_words.profile, with_entries_there(tuning.profile, tune_words));
  std::cout << tuning.candidates << tuning.plan.explain() << timing;
  flush_stdout();
  files.commit();
}

void explain_plan(const Words& words, const TuneWords& tune_words) {
  io::Notices notices;
  Problem problem = prepare(words, notices);
  if (tune_words.tune) return tune_plan(problem, tune_words, notices);
  const Plan plan = make_plan(problem, tune_words);
  print_notes(notices);
  const std::string timing = timing_text(problem, plan, tune_words);  // first, as above
  std::cout << plan.explain() << timing;
}

}  // namespace

Command add_plan(CLI::App& app) {
  const auto words = std::make_shared<Words>();
  const auto tune_words = std::make_shared<TuneWords>();
  CLI::App* parser =
      app.add_subcommand("plan", "Says what a run would do and why: path, tiles, target, workspace, time.");
  add_words(*parser, Subcommand::kPlan, *words);
  add_tune_words(*parser, Subcommand::kPlan, *tune_words);
  parser->footer(std::string(kLettersText) +
                 "Layer, inputs, masks and machine are those of run. Of the inputs only the sizes are read.\n\n"
                 "Example:\n  attend plan --layer dot --shape 8,128,128,64 --attention-weights --threads 4\n"
                 "  attend plan --layer dot --shape 1,16,1024,64 --num-heads 8 --tune --profile tuned.txt");
  return {parser, [words, tune_words] { explain_plan(*words, *tune_words); }};
}

}  // namespace attend::tools
