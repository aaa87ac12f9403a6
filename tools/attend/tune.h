// The words of run and plan that speak of time: a profile to plan with, estimates, measuring, tuning.
#ifndef ATTEND_TOOLS_ATTEND_TUNE_H_
#define ATTEND_TOOLS_ATTEND_TUNE_H_

#include <optional>
#include <string>

#include "attend/planner.h"
#include "tools/attend/options.h"
#include "tools/attend/problem.h"

namespace CLI {
class App;
}

namespace attend::tools {

struct TuneWords {
  std::string profile;  // file; empty: none
  bool measure = false, tune = false;
  std::optional<HeadLayout> head_layout;  // of made-up data; none: as in the files, without files side by side
};

// --profile, and for plan --measure and --tune.
void add_tune_words(CLI::App& app, Subcommand subcommand, TuneWords& words);

// The profile of the file, for PlanOptions::profile; null without --profile. Says on stderr if it is of another CPU or
// library. Errors name the file.
std::optional<Profile> load_profile(const TuneWords& words);

struct Tuning {
  Plan plan;               // the fastest
  std::string candidates;  // lines, best first
  Profile profile;         // the choice
};

// Measures the candidates. Writes nothing, but sees first that --profile can be written.
Tuning tune(const Problem& problem, const TuneWords& words);

// What --profile is to hold, "" without it: what it holds now, and the choice.
std::string with_entries_there(const Profile& tuned, const TuneWords& words);

// Lines behind those of explain(): what a run of a plan for the problem takes by estimate, and with --measure in truth.
std::string timing_text(const Problem& problem, const Plan& plan, const TuneWords& words);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_TUNE_H_
