// attend turns: two builds of the library in turns, in one process: which is faster, where neighbours come and go.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/attend/argument.h"
#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/library_build.h"
#include "tools/attend/numbers.h"
#include "tools/attend/options.h"
#include "tools/attend/problem.h"
#include "tools/attend/progress.h"
#include "tools/attend/table.h"
#include "tools/attend/turn_times.h"

namespace attend::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMinSeconds = 1e-4;  // of one time: a thousand times what the clock takes
constexpr std::size_t kMinTurns = 20, kMaxTurns = 100000;

struct TurnsWords {
  Words problem;
  std::string a, b;
  double seconds = 3;
};

double seconds_of(const std::function<void()>& run, std::int64_t times) {
  const Clock::time_point begin = Clock::now();
  for (std::int64_t i = 0; i < times; ++i) run();
  return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(times);
}

// A before B and B before A by turns: what comes second finds caches as the other left them.
std::vector<Turn> take_turns(const std::function<void()>& a, const std::function<void()>& b, double seconds) {
  double slower = 0;
  for (int warming = 0; warming < 3; ++warming) slower = std::max(seconds_of(a, 1), seconds_of(b, 1));
  const auto times = static_cast<std::int64_t>(std::ceil(kMinSeconds / std::max(slower, 1e-9)));
  std::vector<Turn> turns;
  const Clock::time_point begin = Clock::now();
  while (turns.size() < kMaxTurns) {
    Turn turn{};
    const bool a_first = turns.size() % 2 == 0;
    if (a_first) turn.a = seconds_of(a, times);
    turn.b = seconds_of(b, times);
    if (!a_first) turn.a = seconds_of(a, times);
    turns.push_back(turn);
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    if (passed >= seconds && turns.size() >= kMinTurns) break;
  }
  return turns;
}

std::string difference_text(const Results& a, const Results& b) {
  const Difference output = difference_of(a.output.data, b.output.data);
  const Difference weights = difference_of(a.attention_weights.data, b.attention_weights.data);
  if (output.same_bits && weights.same_bits) return "the same bits";
  return "differ by at most " + scientific(std::max(output.most, weights.most)) + ", of values up to " +
         scientific(std::max(output.largest, weights.largest));
}

std::string ratio_text(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", ratio);
  return text;
}

void add_row(Table& table, const std::string& name, std::span<const Turn> turns) {
  if (turns.empty()) return table.add({name, "0", "-", "-", "-", "-"});
  const RatioOfTurns found = ratio_of(turns);
  table.add({name, std::to_string(found.count), duration_text(found.a), duration_text(found.b), ratio_text(found.ratio),
             found.low ? ratio_text(*found.low) + " to " + ratio_text(*found.high) : "-"});
}

std::string table_of(const std::vector<Turn>& turns) {
  const std::vector<double> slow = slowness(turns);
  std::vector<Turn> quiet, busy;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (slow[i] <= kQuiet) quiet.push_back(turns[i]);
    if (slow[i] >= kBusy) busy.push_back(turns[i]);
  }
  Table table({.indent = 2, .right_aligned = true});
  table.add({"", "turns", "A", "B", "B/A", "95 % interval"});
  add_row(table, "all", turns);
  add_row(table, "quiet", quiet);
  add_row(table, "busy", busy);
  return table.text();
}

void compare_builds(const TurnsWords& words) {
  io::Notices notices;
  const Problem problem = prepare(words.problem, notices);
  LibraryBuild a = read_argument("LIBRARY_A", [&] { return LibraryBuild(words.a, problem); }),
               b = read_argument("LIBRARY_B", [&] { return LibraryBuild(words.b, problem); });
  const Plan plan = problem.layer.attention.plan(problem.shape, problem.options);
  const Data data = invent_data(problem, plan.shape());
  Inputs inputs = data.inputs();
  const bool padded = !words.problem.inputs.valid_lens.empty() || words.problem.mask.skip_padded_queries;
  if (!padded) inputs.valid_lens = {};
  print_notes(notices);
  Results of_a = allocate_results(problem, plan, problem.options.attention_weights), of_b = of_a;
  // One for both, as are inputs and results while times are taken: where memory lies decides what conflicts in caches,
  // which changes times by several per cent.
  std::vector<std::byte> workspace(std::max(a.workspace_bytes(), b.workspace_bytes()) + 64);
  a.use_workspace(workspace);
  b.use_workspace(workspace);
  a.run(inputs, of_a.outputs());
  b.run(inputs, of_b.outputs());
  const std::string difference = difference_text(of_a, of_b);
  std::vector<Turn> turns;
  {
    const Progress progress("taking turns");
    turns = take_turns([&] { a.run(inputs, of_a.outputs()); }, [&] { b.run(inputs, of_a.outputs()); }, words.seconds);
  }
  std::cout << "A: " << one_line(a.path()) << "\n   " << a.plan_text() << "\nB: " << one_line(b.path()) << "\n   "
            << b.plan_text() << "\nresults: " << difference << '\n'
            << table_of(turns);
  flush_stdout();
}

}  // namespace

Command add_turns(CLI::App& app) {
  const auto words = std::make_shared<TurnsWords>();
  CLI::App* parser =
      app.add_subcommand("turns", "Runs a layer by two builds of the library in turns: which is faster, by how much.");
  const auto add_library = [&](const std::string& name, std::string& path, const char* description) {
    const auto read = [name, &path](const std::string& text) {
      if (text.empty()) wrong_usage(name + " is empty");
      path = text;
    };
    parser->add_option_function<std::string>(name, read, description)->required();
  };
  add_library("LIBRARY_A", words->a, "The build before, A: libattend.so as the preset shared makes it.");
  add_library("LIBRARY_B", words->b, "The build after, B.");
  add_words(*parser, Subcommand::kTurns, words->problem);
  parser
      ->add_option_function<std::string>(
          "--seconds",
          [words](const std::string& text) {
            words->seconds = parse_number("--seconds", text, 0, 3600, "seconds from 0 to below 3600");
          },
          "How long to take turns, of which there are 20 at least. Default: 3.")
      ->option_text("S");
  parser->footer(
      std::string(kLettersText) +
      "Of input files only the sizes are read. Inputs are seeded random numbers, and so are valid lengths, one for\n"
      "each batch entry, where --valid-lens or --skip-padded-queries is given. In each turn both builds run on the\n"
      "same memory, one right after the other, A first and B first by turns, so that neighbours on the machine slow\n"
      "both alike: ratios hold to 1 % where times of two processes differ by 10. Where the libraries and their packed\n"
      "parameters lie remains; a copy of A as B shows how much that is.\n"
      "\n"
      "Columns\n"
      "  A, B      medians of a run's time\n"
      "  B/A       median of the turns' ratios, and the interval that holds the true one, 19 times in 20, if turns do\n"
      "            not depend on each other\n"
      "Rows\n"
      "  quiet     turns at most 8 % slower than the fastest twentieth (geometric mean of A and B)\n"
      "  busy      turns at least 18 % slower\n"
      "\n"
      "Example:\n"
      "  attend turns before/libattend.so after/libattend.so --layer dot --shape 1,512,512,64 --num-heads 12");
  return {parser, [words] { compare_builds(*words); }};
}

}  // namespace attend::tools
