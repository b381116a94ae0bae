// SPDX-License-Identifier: Apache-2.0
#include "client/cli/command.h"

#include <cstdio>
#include <memory>
#include <type_traits>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/kernel_help.h"

namespace tune::client {
namespace {

// CLI11 parses "-1" as 2^64 - 1.
std::string RefuseMinus(const std::string& text) {
  return text.rfind('-', 0) == 0 ? "'" + text + "' is below 0" : "";
}

// "1000000", "0.5".
std::string NumberText(double number) {
  const auto whole = static_cast<int64_t>(number);
  return static_cast<double>(whole) == number ? absl::StrCat(whole) : absl::StrCat(number);
}

// Replaces CLI::Range, which prints 0.5 as 0.500000.
CLI::Validator RangeCheck(double low, double high) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value >= low && value <= high) return std::string();
        return absl::StrCat("Value ", text, " not in range ", NumberText(low), " to ",
                            NumberText(high));
      },
      absl::StrCat("in [", NumberText(low), " - ", NumberText(high), "]"));
}

template <typename Value>
CLI::Option* AddOption(CLI::App& app, const Flag& flag, Value& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return app.add_flag(flag.name, value, flag.help);
  } else {
    CLI::Option* option = app.add_option(flag.name, value, flag.help);
    if (flag.range) option->check(RangeCheck(flag.range->first, flag.range->second));
    if constexpr (std::is_unsigned_v<Value>) {
      if (!flag.range) option->check(RefuseMinus);
    }
    if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
      if (value != Value()) option->capture_default_str();
    }
    return option;
  }
}

void AddFlag(CLI::App& app, const Flag& flag) {
  CLI::Option* option =
      std::visit([&](auto* target) { return AddOption(app, flag, *target); }, flag.target);
  option->required(flag.required);
  if (!flag.choices.empty()) option->check(CLI::IsMember(flag.choices));
  if (flag.commas) option->delimiter(',');
  if (flag.values_max > 0) option->expected(1, flag.values_max);
  if (flag.repeated) option->allow_extra_args(false);
  if (!flag.value.empty()) option->type_name(flag.value);
  if (!flag.env.empty()) option->envname(flag.env);
}

void AddFlags(CLI::App& app, Session& session, const Command& command) {
  std::vector<Flag> flags;
  if (KernelChoice* const kernel = command.kernel; kernel != nullptr) {
    flags = {Flag("KERNEL", &kernel->arguments, kKernelHelp),
             Flag("--kernel", &kernel->flags, kKernelFlagHelp).Repeated()};
    for (Flag& flag : flags) flag.values_max = kernel->several ? 0 : 1;
  }
  flags.insert(flags.end(), command.flags.begin(), command.flags.end());
  if (!command.json.empty()) flags.emplace_back("--json", &session.json, command.json);
  for (const Flag& flag : flags) AddFlag(app, flag);
  for (const Flag& flag : flags) {
    CLI::Option* const option = app.get_option(flag.name.substr(0, flag.name.find(',')));
    if (!flag.needs.empty()) option->needs(app.get_option(flag.needs));
    if (!flag.not_with.empty()) option->excludes(app.get_option(flag.not_with));
  }
}

// "Examples:" with the command lines, and the notes.
std::string FooterOf(const Command& command) {
  std::string text;
  if (!command.examples.empty()) {
    absl::StrAppend(&text, "Examples:\n  ", absl::StrJoin(command.examples, "\n  "));
  }
  return absl::StrCat(text, text.empty() || command.notes.empty() ? "" : "\n", command.notes);
}

// The command as it is typed: "tunectl kernel check".
std::string PathOf(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent == nullptr ? app.get_name() : absl::StrCat(PathOf(*parent), " ", app.get_name());
}

}  // namespace

Flag::Flag(std::string name, Target target, std::string help)
    : name(std::move(name)), target(target), help(std::move(help)) {}

Flag& Flag::Required() {
  required = true;
  return *this;
}

Flag& Flag::Range(double least, double most) {
  range = {least, most};
  return *this;
}

Flag& Flag::OneOf(std::vector<std::string> values) {
  choices = std::move(values);
  return *this;
}

Flag& Flag::Commas(int most) {
  commas = true;
  values_max = most;
  return *this;
}

Flag& Flag::Repeated() {
  repeated = true;
  return *this;
}

Flag& Flag::Needs(std::string other) {
  needs = std::move(other);
  return *this;
}

Flag& Flag::NotWith(std::string other) {
  not_with = std::move(other);
  return *this;
}

Flag& Flag::Value(std::string name_of_value) {
  value = std::move(name_of_value);
  return *this;
}

Flag& Flag::Env(std::string variable) {
  env = std::move(variable);
  return *this;
}

std::vector<Flag> QuestionFlags(ProblemFlags& problem) {
  return {Flag("--dtype", &problem.dtype, kDtypeHelp),
          Flag("--device", &problem.device,
               "Device name, id or kind (cuda, cpu); by default this host's")};
}

std::vector<Flag> MeasuredFlags(ProblemFlags& problem) {
  return {Flag("--dtype", &problem.dtype, kDtypeHelp),
          Flag("--device", &problem.device, kDeviceHelp),
          Flag("--seed", &problem.seed, "Seed of the inputs, and of random choices"),
          Flag("--warm", &problem.warm, kWarmHelp)};
}

std::vector<Flag> Joined(std::vector<Flag> flags, const std::vector<Flag>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

void Fill(CLI::App& app, Session& session, const Command& command) {
  app.set_help_flag();
  const auto asked = std::make_shared<bool>(false);
  const bool kernel_help = command.kernel != nullptr && command.dims;
  if (kernel_help) {
    app.add_flag("-h,--help", *asked, "Show this help; with a kernel, also its dims");
  } else {
    app.set_help_flag("-h,--help", "Show this help");
  }
  AddFlags(app, session, command);
  app.footer(FooterOf(command));
  for (const Command& verb : command.verbs) {
    Fill(*app.add_subcommand(verb.name, verb.help), session, verb);
  }
  if (!command.verbs.empty()) app.require_subcommand(command.run ? 0 : 1, 1);
  if (!command.run) return;
  app.callback([&app, &session, asked, kernel = command.kernel, run = command.run] {
    if (!app.get_subcommands().empty()) return;
    if (kernel != nullptr) session.kernels = kernel->All();
    if (*asked) std::fputs(app.help(PathOf(*app.get_parent())).c_str(), stdout);
    const absl::Status status = *asked ? PrintDims(session, kernel->All()) : run();
    if (!status.ok()) session.Finish(status);
  });
}

}  // namespace tune::client
