// attend bench-compare: whether one run of a benchmark program is faster than another, and how sure that is.
#include <regex.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "attend/error.h"
#include "tools/attend/argument.h"
#include "tools/attend/bench_report.h"
#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/numbers.h"
#include "tools/attend/outputs.h"
#include "tools/attend/words.h"
#include "tools/bench_compare/comparison.h"
#include "tools/io/message.h"

namespace attend::tools {
namespace {

struct BenchCompareWords {
  std::string a, b, output;
  CompareOptions options;
  bool fail_on_slower = false;
};

// Times of two machines never stand side by side.
void check_machines(const BenchmarkRun& a, const BenchmarkRun& b, bool across_machines) {
  std::string text;
  for (const ContextDifference& difference : machine_differences(a, b)) {
    text += (text.empty() ? "" : "; ") + io::printable(difference.key) + " " + io::in_quotes(difference.a) + " and " +
            io::in_quotes(difference.b);
  }
  if (across_machines) {
    print_note(text.empty() ? "A and B are of one machine: without --across-machines their times are compared"
                            : "A and B are of different machines: no times, only shares of each machine's peak");
  } else if (!text.empty()) {
    throw Error(a.label + " and " + b.label + " are of different machines, whose times cannot be compared: " + text +
                "; --across-machines compares shares of their peaks");
  }
}

void note_missing_tests(const Comparison& comparison, double alpha) {
  const std::size_t missing = comparison.count(Verdict::kNoTest);
  if (missing == 0) return;
  const std::size_t count = comparison.cases.size();
  char level[32];
  std::snprintf(level, sizeof level, "%.3g", alpha);
  print_note("no test for " + std::to_string(missing) + " of " + std::to_string(count) + " cases: among so many, " +
             level + " takes " + std::to_string(needed_repetitions(count, alpha)) +
             " repetitions in both files (--benchmark_repetitions, without aggregates only)");
}

void fail_if_slower(const Comparison& comparison) {
  std::vector<std::string> slower;
  for (const ComparedCase& one : comparison.cases) {
    if (one.verdict == Verdict::kSlower) slower.push_back(one.name);
  }
  if (!slower.empty()) throw Error("slower: " + io::list_of(slower));
}

void bench_compare(const BenchCompareWords& words) {
  check_writable(words.output);
  const BenchmarkRun a = read_argument("FILE_A", [&] { return load_benchmark_run(words.a); }),
                     b = read_argument("FILE_B", [&] { return load_benchmark_run(words.b); });
  check_machines(a, b, words.options.across_machines);
  const Comparison comparison = compare_runs(a, b, words.options);
  const Compared compared{.a = a, .b = b, .options = words.options, .comparison = comparison};
  OutputFiles files;
  if (!words.output.empty()) {
    files.add(words.output, words.output.ends_with(".csv") ? csv_report(compared) : json_report(compared));
  }
  std::cout << text_report(compared);
  flush_stdout();
  files.commit();
  note_missing_tests(comparison, words.options.alpha);
  if (words.fail_on_slower) fail_if_slower(comparison);
}

Quantity parse_time(const std::string& text) {
  if (text != "cpu" && text != "real") wrong_usage("--time: '" + text + "', expected cpu or real");
  return text == "cpu" ? Quantity::kCpuTime : Quantity::kRealTime;
}

// POSIX, as in --benchmark_filter. Not std::regex: it recurses once per character, and GCC 12 warns of its own code
// when that is built with AddressSanitizer.
std::function<bool(const std::string&)> parse_filter(const std::string& text) {
  auto compiled = std::make_unique<regex_t>();
  if (const int error = regcomp(compiled.get(), text.c_str(), REG_EXTENDED | REG_NOSUB); error != 0) {
    char reason[256];
    regerror(error, compiled.get(), reason, sizeof reason);
    wrong_usage("--filter: '" + text + "', expected an extended regular expression: " + reason);
  }
  const std::shared_ptr<regex_t> regex(compiled.release(), [](regex_t* each) {
    regfree(each);
    delete each;
  });
  return [regex](const std::string& name) { return regexec(regex.get(), name.c_str(), 0, nullptr, 0) == 0; };
}

void add_options(CLI::App& parser, BenchCompareWords& words) {
  CompareOptions& options = words.options;
  const auto add = [&](const char* name, const char* argument, std::function<void(const std::string&)> read,
                       const char* description) {
    return parser.add_option_function<std::string>(name, std::move(read), description)->option_text(argument);
  };
  add(
      "--time", "T", [&](const std::string& text) { options.time = parse_time(text); },
      "cpu or real. Default: real for names with the part real_time or manual_time\n"
      "(Google Benchmark adds it where a case is measured by it), else cpu.");
  add(
      "--filter", "REGEX", [&](const std::string& text) { options.filter = parse_filter(text); },
      "Only cases with this in their names: extended syntax, as --benchmark_filter.");
  add(
      "--alpha", "P",
      [&](const std::string& text) {
        options.alpha = parse_number("--alpha", text, 1e-6, 0.5, "a number from 1e-6 to below 0.5");
      },
      "How likely one wrong \"faster\" or \"slower\" may be, in the whole table; the\nintervals are of 1 - P each. "
      "Default: 0.05.");
  add(
      "--min-effect", "PERCENT",
      [&](const std::string& text) {
        options.min_effect = 0.01 * parse_number("--min-effect", text, 0, 100, "a percentage from 0 to below 100");
      },
      "Ratios closer to 1 than this are no difference, however sure. Default: 1.");
  add(
      "--output", "FILE", [&](const std::string& text) { words.output = text; },
      "The table, more digits, and contexts: .json; or the table alone: .csv.\nDefault: not written.");
  parser.add_flag("--fail-on-slower", words.fail_on_slower,
                  "Exit 1 when a case is slower, or lower across machines; the table and --output are\nwritten first.");
  parser.add_flag("--across-machines", options.across_machines,
                  "Compare peak_percent, or else read_percent, instead of times: how much of what\n"
                  "its machine can do each run reached. Without it, two machines are an error.");
}

}  // namespace

Command add_bench_compare(CLI::App& app) {
  const auto words = std::make_shared<BenchCompareWords>();
  CLI::App* parser =
      app.add_subcommand("bench-compare", "Compares two runs of a Google Benchmark program: faster, slower, how sure.");
  parser->add_option("FILE_A", words->a, "The run before, A: JSON of a Google Benchmark program, 1.7 or later.")
      ->required();
  parser->add_option("FILE_B", words->b, "The run after, B. May be FILE_A itself.")->required();
  add_options(*parser, *words);
  parser->footer(
      "Write the files with 10 repetitions of each case; one case needs 4 at least, fifty need 7:\n"
      "  attend_bench --benchmark_repetitions=10 --benchmark_enable_random_interleaving=true \\\n"
      "      --benchmark_out=a.json --benchmark_out_format=json\n"
      "\n"
      "Columns\n"
      "  A, B      medians of the repetitions\n"
      "  B/A       Hodges-Lehmann estimate: the median of the ratios of all pairs; its interval, for each case alone\n"
      "  p (Holm)  two-sided Mann-Whitney test, exact up to 400 pairs, corrected for the number of cases\n"
      "  n         repetitions in A + B\n"
      "  verdict   faster or slower: p is at most --alpha and the ratio is --min-effect from 1 or more; else no\n"
      "            difference. no test: with so few repetitions no p could have been that small.\n"
      "Behind the table: cases whose counter max_error more than doubled, those that failed, those in one file only.\n"
      "\n"
      "Repetitions of one process share its luck with memory layout and neighbours: where a few per cent matter,\n"
      "compare two runs of A first. Two machines are told by host_name, cpu, num_cpus, caches and mhz_per_cpu; a\n"
      "container has the host_name it is given.\n"
      "\n"
      "Example:\n"
      "  attend bench-compare before.json after.json --filter '^dot/.*/AVX3$' --fail-on-slower");
  parser->callback([words, parser] {
    check_not_empty(*parser, {"FILE_A", "FILE_B", "--output"});
    if (!words->output.empty()) check_ending("--output", words->output, {".json", ".csv"});
    check_apart({{"--output", words->output}}, {{"FILE_A", words->a}, {"FILE_B", words->b}});
    if (words->options.across_machines && parser->count("--time") > 0) {
      wrong_usage("--time and --across-machines exclude each other: across machines no times are compared");
    }
  });
  return {parser, [words] { bench_compare(*words); }};
}

}  // namespace attend::tools
