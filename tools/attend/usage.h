// What wrong usage is called.
#ifndef ATTEND_TOOLS_ATTEND_USAGE_H_
#define ATTEND_TOOLS_ATTEND_USAGE_H_

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace attend::tools {

// The first option whose value is missing though words follow, and what is wrong with it; none: all have theirs. CLI11
// takes the next word for the value whatever it is: "--queries --keys k.npy" would be queries from a file "--keys", and
// a word k.npy too many. A value that begins with "--" is written with "=".
std::optional<std::string> missing_value(const CLI::App& app, const std::vector<std::string>& words);

// What is wrong with the words that app did not take, as the command's own messages say it: CLI11's phrases are of
// another style, and change with its version.
std::string wrong_usage_text(const CLI::App& app, const CLI::ParseError& error);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_USAGE_H_
