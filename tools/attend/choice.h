// Words of the command line that take one of a few names.
#ifndef ATTEND_TOOLS_ATTEND_CHOICE_H_
#define ATTEND_TOOLS_ATTEND_CHOICE_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/attend/command.h"

namespace attend::tools {

// Names and what they stand for, in the order in which messages list them.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

// "a, b or c"
template <class T>
std::string names_of(const Choices<T>& choices) {
  std::string names;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) names += i + 1 < choices.size() ? ", " : " or ";
    names += choices[i].first;
  }
  return names;
}

// One of a few names; another is wrong usage, "word: 'name', expected a, b or c".
template <class T>
CLI::Option& add_choice(CLI::App& app, const std::string& word, T& chosen, const Choices<T>& choices,
                        const std::string& description) {
  return *app.add_option_function<std::string>(
      word,
      [word, &chosen, choices](const std::string& name) {
        const auto found =
            std::find_if(choices.begin(), choices.end(), [&](const auto& choice) { return choice.first == name; });
        if (found == choices.end()) wrong_usage(word + ": '" + name + "', expected " + names_of(choices));
        chosen = found->second;
      },
      description);
}

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_CHOICE_H_
