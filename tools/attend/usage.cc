#include "tools/attend/usage.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace attend::tools {
namespace {

bool has_word(std::string_view phrase, std::string_view word) {
  const std::size_t end = std::min(phrase.find_first_of(": ", word.size()), phrase.size());
  if (phrase.substr(0, end) == word) return true;
  const std::size_t space = phrase.find(' ');
  return space != std::string_view::npos && has_word(phrase.substr(space + 1), word);
}

// The option that CLI11 complains of, and the subcommand's before the command's; null: none. Its name is all that
// versions of a phrase have in common.
const CLI::Option* option_in(const CLI::App& app, std::string_view phrase) {
  for (const CLI::App* subcommand : app.get_subcommands()) {
    if (const CLI::Option* option = option_in(*subcommand, phrase)) return option;
  }
  for (const CLI::Option* option : app.get_options()) {
    if (has_word(phrase, option->get_name())) return option;
  }
  return nullptr;
}

std::string fault_of(const CLI::Option& option) {
  const std::string name = option.get_name();
  if (option.get_items_expected_max() == 0) return name + " takes no value";
  if (option.count() > 1) return name + " is given " + std::to_string(option.count()) + " times, expected once";
  const std::string& value = option.get_option_text();
  return name + " is without its value, expected " + name + " " + (value.empty() ? "VALUE" : value);
}

std::string missing_subcommand(const CLI::App& app) {
  std::string names;
  for (const CLI::App* subcommand : app.get_subcommands({}))
    names += (names.empty() ? "" : ", ") + subcommand->get_name();
  return "a subcommand is required, expected one of " + names;
}

}  // namespace

std::string wrong_usage_text(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return error.what();  // our own words
  // CLI11 reports missing words first, although a word that it does not know is the likelier mistake: perhaps a
  // misspelt one.
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const std::vector<std::string> unknown = app.remaining(true);
  if ((is_missing || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) && !unknown.empty()) {
    return "unknown word '" + unknown.front() + "'";
  }
  const CLI::Option* option = option_in(app, error.what());
  if (is_missing) return option != nullptr ? option->get_name() + " is required" : missing_subcommand(app);
  return option != nullptr ? fault_of(*option) : error.what();
}

}  // namespace attend::tools
