#include "tools/attend/usage.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace attend::tools {
namespace {

// The subcommand's, or else the command's; null: none.
const CLI::Option* option_of(const CLI::App& app, std::string_view name) {
  for (const CLI::App* subcommand : app.get_subcommands()) {
    if (const CLI::Option* option = option_of(*subcommand, name)) return option;
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name() == name) return option;
  }
  return nullptr;
}

// The option that CLI11 complains of; null: none. Its name is all that versions of a phrase have in common, and stands
// before what the user gave it.
const CLI::Option* option_in(const CLI::App& app, std::string_view phrase) {
  while (!phrase.empty()) {
    const std::size_t end = std::min(phrase.find_first_of(": "), phrase.size());
    if (const CLI::Option* option = option_of(app, phrase.substr(0, end))) return option;
    phrase.remove_prefix(std::min(end + 1, phrase.size()));
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
