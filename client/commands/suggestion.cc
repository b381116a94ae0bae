// SPDX-License-Identifier: Apache-2.0
#include "client/commands/suggestion.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tune::client {
namespace {

constexpr size_t kSlipsMax = 2;

// Letters left out, put in, exchanged, or swapped with their neighbour.
size_t Slips(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> slips(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        slips[i][j] = i + j;
        continue;
      }
      slips[i][j] = std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1,
                              slips[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        slips[i][j] = std::min(slips[i][j], slips[i - 2][j - 2] + 1);
      }
    }
  }
  return slips[a.size()][b.size()];
}

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

const CLI::Option* FlagNamed(const CLI::App& app, const std::string& name) {
  const auto options = app.get_options();
  const auto it = std::find_if(options.begin(), options.end(), [&](const CLI::Option* option) {
    return option->check_name(name);
  });
  return it == options.end() ? nullptr : *it;
}

}  // namespace

std::string Nearest(const std::string& word, const std::vector<std::string>& candidates) {
  const size_t most = std::min(kSlipsMax, word.size() / 3);
  std::string nearest;
  size_t least = most + 1;
  for (const std::string& candidate : candidates) {
    const size_t slips = Slips(word, candidate);
    if (slips < least) {
      least = slips;
      nearest = candidate;
    }
  }
  return nearest;
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
      const std::string nearest = Nearest(word, FlagsOf(*level));
      if (nearest.empty() || (!error.empty() && !absl::StrContains(error, word))) continue;
      return absl::StrCat("'", path, "' has no flag ", name, "; did you mean --", nearest, "?");
    }
    const std::vector<std::string> commands = CommandsOf(*level);
    if (std::find(commands.begin(), commands.end(), argument) != commands.end()) {
      level = level->get_subcommand(argument);
      absl::StrAppend(&path, " ", argument);
      continue;
    }
    const std::string nearest = Nearest(argument, commands);
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
