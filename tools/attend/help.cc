#include "tools/attend/help.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace attend::tools {
namespace {

constexpr std::size_t kColumn = 29;  // where descriptions begin

// "  what" and its description in its column, on the next line where `what` is too long. Lines are broken where the
// description says, and nowhere else.
std::string row(const std::string& what, const std::string& description) {
  const std::string indent(kColumn, ' ');
  std::string text = "  " + what;
  text += text.size() < kColumn ? std::string(kColumn - text.size(), ' ') : '\n' + indent;
  for (const char c : description) {
    text += c;
    if (c == '\n') text += indent;
  }
  return text + '\n';
}

// What an option's value is called, and whether the option or the positional must be given.
std::string value_text(const CLI::Option& option) {
  const std::string& value = option.get_option_text();
  return (value.empty() ? "" : " " + value) + (option.get_required() ? " REQUIRED" : "");
}

std::vector<const CLI::Option*> positionals_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::string usage(const CLI::App& app, const std::string& name) {
  std::string text = "Usage: " + name + " [OPTIONS]";
  for (const CLI::Option* option : positionals_of(app)) text += " " + option->get_name();
  return text + (app.get_subcommands({}).empty() ? "\n" : " SUBCOMMAND\n");
}

std::string options_of(const CLI::App& app, const std::string& group) {
  std::string rows;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() != group || !option->nonpositional()) continue;
    rows += row(option->get_name(false, true) + value_text(*option), option->get_description());
  }
  return rows;
}

std::string section(std::string_view title, const std::string& rows) {
  return rows.empty() ? "" : "\n" + std::string(title) + ":\n" + rows;
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const {
  std::string text = app->get_description() + '\n' + usage(*app, name);
  std::string positionals, subcommands;
  for (const CLI::Option* option : positionals_of(*app)) {
    positionals += row(option->get_name() + value_text(*option), option->get_description());
  }
  text += section("Positionals", positionals);
  const std::string common = app->get_help_ptr()->get_group();
  for (const std::string& group : app->get_groups()) {
    // An option without a group is hidden; the name of the common one differs between versions.
    if (!group.empty()) text += section(group == common ? "Options" : group, options_of(*app, group));
  }
  for (const CLI::App* subcommand : app->get_subcommands({})) {
    subcommands += row(subcommand->get_name(), subcommand->get_description());
  }
  text += section("Subcommands", subcommands);
  return app->get_footer().empty() ? text : text + '\n' + app->get_footer() + '\n';
}

}  // namespace attend::tools
