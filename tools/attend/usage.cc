#include "tools/attend/usage.h"

#include <algorithm>
#include <cstddef>
#include <optional>
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

std::string without_value(const CLI::Option& option) {
  const std::string name = option.get_name();
  const std::string& value = option.get_option_text();
  return name + " is without its value, expected " + name + " " + (value.empty() ? "VALUE" : value);
}

std::string fault_of(const CLI::Option& option) {
  const std::string name = option.get_name();
  if (option.get_items_expected_max() == 0) return name + " takes no value";
  if (option.count() > 1) return name + " is given " + std::to_string(option.count()) + " times, expected once";
  return without_value(option);
}

std::string subcommands_of(const CLI::App& app) {
  std::string names;
  for (const CLI::App* subcommand : app.get_subcommands({}))
    names += (names.empty() ? "" : ", ") + subcommand->get_name();
  return names;
}

// The subcommand of that name, or else app.
const CLI::App* subcommand_or(const CLI::App& app, std::string_view name) {
  for (const CLI::App* subcommand : app.get_subcommands({})) {
    if (subcommand->get_name() == name) return subcommand;
  }
  return &app;
}

std::string unknown_word(const CLI::App& app, const std::vector<std::string>& unknown) {
  const std::string fault = "unknown word '" + unknown.front() + "', ";
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const bool is_before_subcommand = chosen.empty() || !app.remaining().empty();
  if (is_before_subcommand) return fault + "expected one of " + subcommands_of(app);
  return fault + "which attend " + chosen.front()->get_name() + " does not take";
}

}  // namespace

std::optional<std::string> missing_value(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* reader = &app;
  const CLI::Option* waiting = nullptr;  // for its value
  for (const std::string& word : words) {
    const bool is_option = word.starts_with("--");
    if (waiting != nullptr && is_option) return without_value(*waiting) + ", found '" + word + "'";
    if (word == "--") break;
    if (waiting == nullptr && is_option) {
      const CLI::Option* option = reader->get_option_no_throw(word);  // null for "--output=o.npy", too
      if (option != nullptr && option->get_items_expected_min() > 0) waiting = option;
      continue;
    }
    if (waiting == nullptr && reader == &app) reader = subcommand_or(app, word);
    waiting = nullptr;
  }
  return std::nullopt;
}

std::string wrong_usage_text(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return error.what();  // our own words
  // CLI11 reports missing words first, although a word that it does not know is the likelier mistake: perhaps a
  // misspelt one.
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const std::vector<std::string> unknown = app.remaining(true);
  if ((is_missing || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) && !unknown.empty()) {
    return unknown_word(app, unknown);
  }
  const CLI::Option* option = option_in(app, error.what());
  if (is_missing && option == nullptr) return "a subcommand is required, expected one of " + subcommands_of(app);
  if (is_missing) return option->get_name() + " is required";
  return option != nullptr ? fault_of(*option) : error.what();
}

}  // namespace attend::tools
