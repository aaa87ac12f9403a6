// What main knows of a subcommand. One file each: run.cc, softmax.cc, plan.cc, targets.cc, check.cc, heatmap.cc,
// compare.cc, bench_compare.cc, turns.cc.
#ifndef ATTEND_TOOLS_ATTEND_COMMAND_H_
#define ATTEND_TOOLS_ATTEND_COMMAND_H_

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace attend::tools {

// A subcommand's words, known to the parser, and what it does once they are read. The action throws for what goes wrong
// (exit code 1); wrong usage is thrown while parsing (exit code 2).
struct Command {
  CLI::App* words;
  std::function<void()> action;
};

Command add_run(CLI::App& app);
Command add_softmax(CLI::App& app);
Command add_plan(CLI::App& app);
Command add_targets(CLI::App& app);
Command add_check(CLI::App& app);
Command add_heatmap(CLI::App& app);
Command add_compare(CLI::App& app);
Command add_bench_compare(CLI::App& app);
Command add_turns(CLI::App& app);

// To be called while parsing: from an option's validator or a subcommand's callback.
[[noreturn]] void wrong_usage(const std::string& message);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_COMMAND_H_
