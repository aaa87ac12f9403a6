// attend targets: the instruction sets there are.
#include <iostream>

#include <CLI/CLI.hpp>

#include "attend/target.h"
#include "tools/attend/command.h"

namespace attend::tools {
namespace {

void list_targets() {
  for (const Target& target : Target::available()) {
    std::cout << target.name() << (target == Target::best() ? " (default)" : "") << '\n';
  }
}

}  // namespace

Command add_targets(CLI::App& app) {
  CLI::App* words =
      app.add_subcommand("targets", "Lists the instruction sets that this build has and this CPU runs, best first.");
  words->footer("Example:\n  attend targets");
  return {words, list_targets};
}

}  // namespace attend::tools
