// Which words go together.
#ifndef ATTEND_TOOLS_ATTEND_WORDS_H_
#define ATTEND_TOOLS_ATTEND_WORDS_H_

#include <string>
#include <utility>
#include <vector>

#include "tools/attend/options.h"

namespace attend::tools {

// Throws wrong usage, naming the word, for: words of another layer, a layer without its weights, heads that do not
// divide, inputs twice or not at all, a mask without what it goes by, outputs that are no .npy files, the same file or
// one of the inputs.
void check_words(const CLI::App& app, Subcommand subcommand, const Words& words);

// Throws wrong usage if one of these words was given as "", which is what a script passes whose variable is not set.
void check_not_empty(const CLI::App& app, const std::vector<std::string>& words);

// Throws wrong usage unless path ends with one of the endings.
void check_ending(const std::string& word, const std::string& path, const std::vector<std::string>& endings);

// A word and the file behind it, of an input also file.npz:name; "": none.
using FileWord = std::pair<std::string, std::string>;

// Throws wrong usage if an output is an input, which it would replace, or another output. Whole inputs are read before
// anything is written, so that the result would be right; but a file in the wrong place is the likelier reason.
void check_apart(const std::vector<FileWord>& outputs, const std::vector<FileWord>& inputs);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_WORDS_H_
