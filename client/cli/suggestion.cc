// SPDX-License-Identifier: Apache-2.0
#include "client/cli/suggestion.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/near_name.h"
#include "client/cli/kernel_choice.h"

namespace tune::client {
namespace {

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

bool TakesPositionals(const CLI::App& app) {
  const auto options = app.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->get_positional(); });
}

// The most words that a command takes beside its flags.
size_t PositionalsMax(const CLI::App& app) {
  size_t most = 0;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) most += static_cast<size_t>(option->get_items_expected_max());
  }
  return most;
}

const CLI::Option* FlagNamed(const CLI::App& app, const std::string& name) {
  const auto options = app.get_options();
  const auto it = std::find_if(options.begin(), options.end(),
                               [&](const CLI::Option* option) { return option->check_name(name); });
  return it == options.end() ? nullptr : *it;
}

// "server status" of "status", if only one command has a verb of that name; else empty.
std::string PathOf(const CLI::App& app, const std::string& verb) {
  std::string path;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::vector<std::string> verbs = CommandsOf(*command);
    if (std::find(verbs.begin(), verbs.end(), verb) == verbs.end()) continue;
    if (!path.empty()) return "";
    path = absl::StrCat(command->get_name(), " ", verb);
  }
  return path;
}

// Advice about a word too many: `word` stands behind `flag` and its `value`, if these are not
// empty, and before `next`.
std::string SurplusAdvice(const CLI::App& app, const std::string& flag, const std::string& value,
                          const std::string& word, const std::string& next) {
  if (!flag.empty()) {
    const CLI::Option* const option = FlagNamed(app, flag);
    return absl::StrCat("; ", flag, " takes one word, and has '", value, "'",
                        option == nullptr ? "" : ": " + option->get_description());
  }
  if (FlagNamed(app, "KERNEL") == nullptr) return "";
  const absl::Status dim = CheckIsNoDim(absl::StrCat(word, "=", next));
  return absl::StrCat("; dims are flags: --", dim.ok() ? "rows 64" : word + " " + next);
}

}  // namespace

std::string SurplusWordIn(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* level = &app;
  std::string path = "tunectl";
  std::string flag;  // the one just before, with its value
  std::string value;
  size_t words = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : "";
    if (absl::StartsWith(argument, "-")) {
      const std::string name = argument.substr(0, argument.find('='));
      const CLI::Option* const own = FlagNamed(*level, name);
      const CLI::Option* const known = own == nullptr ? FlagNamed(app, name) : own;
      // A dim is a flag that no command lists.
      const bool takes_next = !absl::StrContains(argument, '=') &&
                              (known == nullptr || known->get_items_expected_min() > 0);
      flag = takes_next ? argument : "";
      value = takes_next ? next : "";
      i += takes_next ? 1 : 0;
      continue;
    }
    const std::vector<std::string> commands = CommandsOf(*level);
    if (words == 0 && std::find(commands.begin(), commands.end(), argument) != commands.end()) {
      level = level->get_subcommand(argument);
      absl::StrAppend(&path, " ", argument);
    } else if (++words > PositionalsMax(*level)) {
      return absl::StrCat("'", argument, "' is one word more than '", path, "' takes",
                          SurplusAdvice(*level, flag, value, argument, next));
    }
    flag.clear();
  }
  return "";
}

std::string SuggestionFor(const CLI::App& app, const std::vector<std::string>& arguments,
                          const std::string& error) {
  const CLI::App* level = &app;
  std::string path = "tunectl";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (absl::StartsWith(argument, "-")) {
      const std::string name = argument.substr(0, argument.find('='));
      if (const CLI::Option* flag = FlagNamed(*level, name); flag != nullptr) {
        if (flag->get_items_expected_min() > 0 && name == argument) ++i;  // its value
        continue;
      }
      const std::string word = name.substr(std::min(name.find_first_not_of('-'), name.size()));
      const std::string nearest = NearName(word, FlagsOf(*level));
      if (nearest.empty() || (!error.empty() && !absl::StrContains(error, word))) continue;
      return absl::StrCat("'", path, "' has no flag ", name, "; did you mean --", nearest, "?");
    }
    const std::vector<std::string> commands = CommandsOf(*level);
    if (std::find(commands.begin(), commands.end(), argument) != commands.end()) {
      level = level->get_subcommand(argument);
      absl::StrAppend(&path, " ", argument);
      continue;
    }
    const absl::Status no_dim = CheckIsNoDim(argument);
    if (error.empty() && !no_dim.ok() && TakesPositionals(*level)) {
      return std::string(no_dim.message());
    }
    if (level == &app) {
      const std::string path_of_it = PathOf(app, argument);
      if (!path_of_it.empty()) {
        return absl::StrCat("there is no 'tunectl ", argument, "'; did you mean 'tunectl ",
                            path_of_it, "'?");
      }
    }
    const std::string nearest = NearName(argument, commands);
    if (!nearest.empty() && (error.empty() || absl::StrContains(error, argument))) {
      return absl::StrCat("there is no '", path, " ", argument, "'; did you mean '", path, " ",
                          nearest, "'?");
    }
    if (error.empty() && !commands.empty() && !TakesPositionals(*level)) {
      return absl::StrCat("there is no '", path, " ", argument,
                          "'; there is: ", absl::StrJoin(commands, ", "));
    }
  }
  return "";
}

}  // namespace tune::client
