// What --help prints: our own words and lines, the same with every version of CLI11, whose formatters differ.
#ifndef ATTEND_TOOLS_ATTEND_HELP_H_
#define ATTEND_TOOLS_ATTEND_HELP_H_

#include <string>

#include <CLI/CLI.hpp>

namespace attend::tools {

class HelpFormatter : public CLI::FormatterBase {
 public:
  // Description, usage, positionals, options group by group, subcommands, footer; an empty line between them.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_HELP_H_
