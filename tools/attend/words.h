// Which words go together.
#ifndef ATTEND_TOOLS_ATTEND_WORDS_H_
#define ATTEND_TOOLS_ATTEND_WORDS_H_

#include "tools/attend/options.h"

namespace attend::tools {

// Throws wrong usage, naming the word, for: words of another layer, a layer without its weights, heads that do not
// divide, inputs twice or not at all, a mask without what it goes by, outputs that are no .npy files or the same file.
void check_words(const CLI::App& app, Subcommand subcommand, const Words& words);

// Throws wrong usage unless path ends with one of the endings.
void check_ending(const std::string& word, const std::string& path, const std::vector<std::string>& endings);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_WORDS_H_
