// What wrong usage is called.
#ifndef ATTEND_TOOLS_ATTEND_USAGE_H_
#define ATTEND_TOOLS_ATTEND_USAGE_H_

#include <string>

#include <CLI/CLI.hpp>

namespace attend::tools {

// What is wrong with the words that app did not take, as the command's own messages say it: CLI11's phrases are of
// another style, and change with its version.
std::string wrong_usage_text(const CLI::App& app, const CLI::ParseError& error);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_USAGE_H_
