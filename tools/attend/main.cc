// The command `attend`: reads the words, calls the subcommand, turns what is thrown into a line and an exit code.
//   0  done
//   1  an error: one line "attend: error: ..." on stderr, no output file changed (but bench-compare --fail-on-slower)
//   2  wrong usage: help on stderr, its last line says what is wrong
#include <csignal>
#include <cstddef>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "attend/error.h"
#include "attend/version.h"
#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/help.h"
#include "tools/attend/outputs.h"
#include "tools/attend/signals.h"
#include "tools/attend/usage.h"

namespace attend::tools {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

void describe(CLI::App& app) {
  app.set_version_flag("--version", std::string("attend ") + version(), "Prints the version.");
  app.set_help_flag("-h,--help", "Prints this help.");
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  app.footer(
      "attend SUBCOMMAND --help says more about each. A value that begins with -- is written with =: --title=--.\n"
      "Exit code: 0; 1 after an error: one line on stderr, and no output file is changed; 2 after wrong usage.\n"
      "bench-compare --fail-on-slower also ends with 1, after writing --output.\n"
      "\n"
      "Example:\n"
      "  attend run --layer dot --queries q.npy --keys k.npy --values v.npy --output out.npy");
}

int report_error(const std::string& message) {
  std::cerr << "attend: error: " << one_line(message) << '\n';
  return kFailed;
}

int finish_output() {
  flush_stdout();
  return kDone;
}

// The words of a command line. CLI11 reads "--output=" as an option whose value follows, which would be the next
// option: here the value is the empty one.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words;
  bool has_options = true;  // up to "--"
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    has_options = has_options && word != "--";
    const bool is_long = has_options && word.starts_with("--") && word.size() > 3;
    const bool is_empty_value = is_long && word.find('=') == word.size() - 1;
    if (is_empty_value) word.pop_back();
    words.push_back(std::move(word));
    if (is_empty_value) words.emplace_back();
  }
  return words;
}

int run_action(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (command.words->parsed()) command.action();
  }
  return finish_output();
}

int main_of(int argc, char** argv) {
  CLI::App app("Attention on CPUs: runs, plans, checks and draws attention layers.", "attend");
  describe(app);
  const std::vector<Command> commands = {add_run(app),     add_softmax(app),       add_plan(app),
                                         add_targets(app), add_check(app),         add_heatmap(app),
                                         add_compare(app), add_bench_compare(app), add_turns(app)};
  const std::vector<std::string> words = words_of(argc, argv);
  const std::optional<std::string> missing = missing_value(app, words);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // which CLI11 takes last one first
    if (missing) wrong_usage(*missing);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return finish_output();
  } catch (const CLI::CallForVersion& e) {
    std::cout << e.what() << '\n';
    return finish_output();
  } catch (const CLI::ParseError& e) {
    std::cerr << app.help() << "\nattend: error: " << one_line(missing ? *missing : wrong_usage_text(app, e)) << '\n';
    return kWrongUsage;
  }
  return run_action(commands);
}

}  // namespace
}  // namespace attend::tools

int main(int argc, char** argv) {
  // A reader that has gone is a failing stdout like others: files that lie ready beside their goals are to be removed.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that may not grow any more (ulimit -f): writing it fails then.
  std::signal(SIGXFSZ, SIG_IGN);
  attend::tools::clean_up_on_signals(attend::tools::OutputFiles::discard_all);
  try {
    return attend::tools::main_of(argc, argv);
  } catch (const std::bad_alloc&) {
    return attend::tools::report_error("not enough memory");
  } catch (const std::exception& e) {
    return attend::tools::report_error(e.what());
  }
}
