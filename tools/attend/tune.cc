#include "tools/attend/tune.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "attend/error.h"
#include "tools/attend/argument.h"
#include "tools/attend/choice.h"
#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/memory.h"
#include "tools/attend/outputs.h"
#include "tools/attend/progress.h"
#include "tools/attend/words.h"
#include "tools/io/file.h"
#include "tools/io/message.h"

namespace attend::tools {
namespace {

// A profile of a thousand problems has some 200 KB.
constexpr std::uint64_t kMaxBytes = 16 << 20;

Profile parse_profile(const io::File& file) {
  if (file.size() > kMaxBytes) {
    throw Error(file.label() + ": " + std::to_string(file.size()) + " bytes, expected a profile of at most " +
                std::to_string(kMaxBytes));
  }
  try {
    return Profile::parse(io::read_whole(file));
  } catch (const Error& e) {
    throw Error(file.label() + ": " + io::printable_path(e.what()));  // it may show bytes that are no text
  }
}

Profile read_profile(const std::string& path) {
  return read_argument("--profile", [&] { return parse_profile(io::File(path)); });
}

// Without entries where there is no file yet, or an empty one, as mktemp makes them.
Profile profile_so_far(const std::string& path) {
  std::error_code ignored;
  const bool is_there = std::filesystem::exists(path, ignored) && std::filesystem::file_size(path, ignored) != 0;
  return is_there ? read_profile(path) : Profile();
}

// Before anything is measured: that the choice can be added to the file.
void check_takes_entries(const std::string& path) {
  const Profile there = profile_so_far(path), here;
  if (there.entries().empty() || there.cpu() == here.cpu()) return;
  throw Error(path + ": measured on cpu " + io::in_quotes(there.cpu()) + ", this is " + io::in_quotes(here.cpu()) +
              "; expected a file of this CPU, or a new one");
}

void note_other_origin(const std::string& path, const Profile& profile) {
  const Profile here;
  const auto note = [&](const char* what, const std::string& there, const std::string& ours) {
    if (there == ours) return;
    print_note(path + ": measured on " + what + " \"" + io::printable(there) + "\", this is \"" + ours + "\"");
  };
  note("cpu", profile.cpu(), here.cpu());
  note("library", profile.library(), here.library());
}

// As in explain().
std::string line(std::string what, const std::string& text) {
  what = "  " + what;
  what.resize(std::max<std::size_t>(what.size() + 1, 14), ' ');
  return what + text + "\n";
}

std::string rate_text(double per_second) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", per_second * 1e-9);
  return text;
}

std::string estimate_text(const Cost& cost, const Machine& machine) {
  const std::pair<double, const char*> terms[] = {
      {cost.product_seconds, "products"},  {cost.exp_seconds, "exponentials"},       {cost.tanh_seconds, "tanhs"},
      {cost.packing_seconds, "packing"},   {cost.projection_seconds, "projections"}, {cost.memory_seconds, "memory"},
      {cost.overhead_seconds, "overhead"},
  };
  std::string parts;
  for (const auto& [seconds, name] : terms) {
    if (seconds > 0.005 * cost.seconds)
      parts += (parts.empty() ? "" : ", ") + std::string(name) + " " + duration_text(seconds);
  }
  return line("estimate",
              duration_text(cost.seconds) + ", bound by " + std::string(cost.bound) + "; on one core " + parts) +
         line("machine", rate_text(machine.flops) + " GFLOPS a core; reads " + rate_text(machine.l2_bandwidth) +
                             " GB/s from L2, " + rate_text(machine.l3_bandwidth) + " from L3, " +
                             rate_text(machine.memory_bandwidth) + " from memory");
}

std::string tile_text(std::int64_t tile) { return tile == 0 ? "-" : std::to_string(tile); }

std::string candidate_text(const TunedCandidate& candidate) {
  std::string text = "  " + candidate.path;
  text.resize(std::max<std::size_t>(text.size() + 1, 34), ' ');
  text += "tile " + tile_text(candidate.tile_queries) + " x " + tile_text(candidate.tile_keys);
  if (candidate.pairs == Pairs::kNever) text += ", no pairs";
  text.resize(std::max<std::size_t>(text.size() + 1, 61), ' ');
  return text + duration_text(candidate.seconds) + ", median " + duration_text(candidate.median_seconds) +
         (candidate.by_rules ? "  (by the rules)" : "") + "\n";
}

HeadLayout head_layout(const Problem& problem, const TuneWords& words) {
  return words.head_layout.value_or(problem.from_files ? HeadLayout::kApart : HeadLayout::kSideBySide);
}

// " on made-up data", and of what layout, where there are heads to lay.
std::string data_text(const Problem& problem, const TuneWords& words) {
  if (!problem.head_axis || problem.shape.num_heads == 1) return " on made-up data";
  return std::string(" on made-up data, heads ") +
         (head_layout(problem, words) == HeadLayout::kApart ? "apart" : "side by side");
}

}  // namespace

void add_tune_words(CLI::App& app, Subcommand subcommand, TuneWords& words) {
  const std::string group = "Time";
  const bool is_plan = subcommand == Subcommand::kPlan;
  app.add_option_function<std::string>(
         "--profile",
         [&words](const std::string& path) {
           if (path.empty()) wrong_usage("--profile is empty");
           words.profile = path;
         },
         std::string("Choices that attend plan --tune has measured: an entry for exactly this problem and\n"
                     "number of threads overrides the rules. Default: the rules choose.") +
             (is_plan ? "\nWith --tune the file is made, or the choice added to it; comments are not kept." : ""))
      ->option_text("FILE")
      ->group(group);
  if (!is_plan) return;
  app.add_flag("--measure", words.measure,
               "Also runs the plan, on made-up data, and prints the time beside the estimate.")
      ->group(group);
  app.add_flag("--tune", words.tune,
               "Runs the problem in the ways that fit it (paths, tiles, pairs), on made-up data,\n"
               "prints their times and plans with the fastest, which --profile keeps. Default: the\n"
               "rules choose.")
      ->group(group);
  add_choice(app, "--head-layout", words.head_layout,
             {{"side-by-side", HeadLayout::kSideBySide}, {"apart", HeadLayout::kApart}},
             "How the made-up data of --measure and --tune lies in memory, where dot or gaussian\n"
             "has heads: side-by-side, (B, N, H * D), or apart, (B, H, N, D). Changes times\n"
             "only. Default: side-by-side with --shape, apart with files.")
      .option_text("L")
      ->group(group);
}

std::optional<Profile> load_profile(const TuneWords& words) {
  if (words.profile.empty()) return std::nullopt;
  Profile profile = read_profile(words.profile);
  note_other_origin(words.profile, profile);
  return profile;
}

Tuning tune(const Problem& problem, const TuneWords& words) {
  if (!words.profile.empty()) check_takes_entries(words.profile);
  check_writable(words.profile);
  Tuned tuned = [&] {
    const Progress progress("tuning");
    return with_memory_for("made-up data to tune with", [&] {
      return Planner::tune(problem.layer.attention, problem.shape, problem.options,
                           {.head_layout = head_layout(problem, words)});
    });
  }();
  std::string candidates = "candidates" + data_text(problem, words) + ", the least time first:\n";
  for (const TunedCandidate& candidate : tuned.candidates) candidates += candidate_text(candidate);
  return {.plan = std::move(tuned.plan), .candidates = std::move(candidates), .profile = std::move(tuned.profile)};
}

std::string with_entries_there(const Profile& tuned, const TuneWords& words) {
  if (words.profile.empty()) return {};
  Profile profile = profile_so_far(words.profile);
  try {
    profile.merge(tuned);
  } catch (const Error& e) {
    throw Error(words.profile + ": " + e.what());
  }
  return profile.text();
}

std::string timing_text(const Problem& problem, const Plan& plan, const TuneWords& words) {
  const Machine machine = Machine::measure(Target::from_name(plan.target_name()));
  const Cost cost = plan.cost(machine);
  std::string text = estimate_text(cost, machine);
  if (words.measure) {
    const Progress progress("measuring");
    const double seconds = with_memory_for("made-up data to measure with", [&] {
      return Planner::measure(plan, {.seconds = 0.3, .head_layout = head_layout(problem, words)});
    });
    char percent[32];
    std::snprintf(percent, sizeof percent, "%.0f", 100 * cost.seconds / seconds);
    text += line("measured",
                 duration_text(seconds) + data_text(problem, words) + "; the estimate is " + percent + " % of it");
  }
  return text;
}

}  // namespace attend::tools
