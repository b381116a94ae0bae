// SPDX-License-Identifier: Apache-2.0
#include "client/cli/manual.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace tune::client {
namespace {

constexpr char kPreface[] =
    "# tunectl\n\nWritten by `tunectl help --markdown`; do not edit.\n\n"
    "Every reading command has `--json`: a message of `proto/tune/v1` as an object, with the "
    "field\n"
    "names of the .proto files. Fields that are zero, empty or unset are left out; all numbers are "
    "plain\n"
    "numbers, 64-bit ones too; infinite values and NaN are `null`. A config is an object of its "
    "params,\n"
    "`{\"BLOCK_M\": 64, \"PATH\": \"wgmma\"}`; a problem is `{\"dims\": {\"seq\": 4096}, "
    "\"dtype\": \"bf16\"}`.\n"
    "A command that lists prints an object with one list, also if it is empty, with an element on "
    "a line:\n"
    "`{\"sweeps\": [...]}`, and so `kernels`, `devices`, `trials`, `profiles`, `gates`, "
    "`baselines`,\n"
    "`strategies`. Only ASCII is printed; other characters are escaped. Tables are for people and "
    "may change;\n"
    "in them control characters of compile logs, names and messages are shown as `\\x1b` and the "
    "like.\n";

// CLI11's help() of a command that has been called is that of the verb it was called with.
std::string HelpOf(const CLI::App& command, const std::string& path) {
  return command.get_formatter()->make_help(&command, path, CLI::AppFormatMode::Normal);
}

absl::Status PrintHelp(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string path = "tunectl";
  for (const std::string& word : words) {
    const auto named =
        command->get_subcommands([&](const CLI::App* verb) { return verb->get_name() == word; });
    if (named.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has no command '", word, "'; see: ", path, " --help"));
    }
    command = named.front();
    absl::StrAppend(&path, " ", word);
  }
  std::fputs(HelpOf(*command, path).c_str(), stdout);
  return absl::OkStatus();
}

void AppendCommand(const CLI::App& command, const std::string& path, std::string& text) {
  absl::StrAppend(&text, "\n## ", path, "\n\n```\n", HelpOf(command, path), "```\n");
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) {
    AppendCommand(*sub, absl::StrCat(path, " ", sub->get_name()), text);
  }
}

// CLI11's own form has all that it knows in the flag's type: "--limit UINT:INT in [1 - 1000]=20".
class Formatter : public CLI::Formatter {
 public:
  // Without a footer CLI11 ends the help with an empty line.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    while (absl::EndsWith(text, "\n\n")) text.pop_back();
    return text;
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (!option->get_positional() && option->get_type_size() != 0) text = ValueName(*option);
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
    return text;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::vector<std::string> notes;
    if (const std::string range = RangeText(*option); !range.empty()) notes.push_back(range);
    if (!option->get_default_str().empty()) notes.push_back("default " + option->get_default_str());
    if (option->get_required() && !option->get_positional()) notes.push_back("required");
    if (!option->get_envname().empty()) notes.push_back("or $" + option->get_envname());
    for (const CLI::Option* other : option->get_needs()) {
      notes.push_back("only with " + other->get_name());
    }
    for (const CLI::Option* other : option->get_excludes()) {
      notes.push_back("not with " + other->get_name());
    }
    const std::string& help = option->get_description();
    return notes.empty() ? help : absl::StrCat(help, " (", absl::StrJoin(notes, ", "), ")");
  }

 private:
  // " N", " TEXT" or " {html,svg}".
  static std::string ValueName(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    if (const size_t choices = type.find(":{"); choices != std::string::npos) {
      return absl::StrCat(" ", type.substr(choices + 1));
    }
    const std::string name = type.substr(0, type.find(':'));
    return name == "UINT" || name == "INT" || name == "FLOAT" ? " N" : absl::StrCat(" ", name);
  }

  // "1 to 1000"; empty: any number.
  static std::string RangeText(const CLI::Option& option) {
    const std::vector<std::string> parts =
        absl::StrSplit(option.get_type_name(), absl::ByAnyChar("[]"));
    return parts.size() < 2 ? "" : absl::StrReplaceAll(parts[1], {{" - ", " to "}});
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> HelpFormatter() { return std::make_shared<Formatter>(); }

Command HelpCommand(const CLI::App& app) {
  auto markdown = std::make_shared<bool>(false);
  auto words = std::make_shared<std::vector<std::string>>();
  return {.name = "help",
          .help = "Show this manual, or one command's help",
          .flags = {Flag("COMMAND", words.get(), "Command, such as: sweep, or: kernel check"),
                    Flag("--markdown", markdown.get(),
                         "Print the help of all commands, as docs/cli.md")},
          .run = [&app, markdown, words] {
            if (!*markdown) return PrintHelp(app, *words);
            std::string text = kPreface;
            AppendCommand(app, "tunectl", text);
            std::fputs(text.c_str(), stdout);
            return absl::OkStatus();
          }};
}

}  // namespace tune::client
