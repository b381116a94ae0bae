// SPDX-License-Identifier: Apache-2.0
#include "client/cli/command.h"

#include <memory>
#include <type_traits>

#include "CLI/CLI.hpp"
#include "client/cli/commands.h"
#include "client/cli/kernel_help.h"

namespace tune::client {
namespace {

template <typename Value>
CLI::Option* AddOption(CLI::App& app, const Flag& flag, Value& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    return app.add_flag(flag.name, value, flag.help);
  } else {
    CLI::Option* option = app.add_option(flag.name, value, flag.help);
    if constexpr (std::is_unsigned_v<Value>) {
      if (!flag.range) option->check(RefuseMinus);
    }
    if constexpr (std::is_integral_v<Value> || std::is_same_v<Value, std::string>) {
      if (value != Value()) option->capture_default_str();
    }
    return option;
  }
}

void AddFlag(CLI::App& app, const Flag& flag) {
  CLI::Option* option =
      std::visit([&](auto* target) { return AddOption(app, flag, *target); }, flag.target);
  option->required(flag.required);
  if (flag.range) option->check(CLI::Range(flag.range->first, flag.range->second));
  if (!flag.choices.empty()) option->check(CLI::IsMember(flag.choices));
  if (flag.commas) option->delimiter(',');
  if (flag.values_max > 0) option->expected(1, flag.values_max);
  if (flag.repeated) option->allow_extra_args(false);
  if (!flag.needs.empty()) option->needs(app.get_option(flag.needs));
  if (!flag.not_with.empty()) option->excludes(app.get_option(flag.not_with));
}

}  // namespace

Flag::Flag(std::string name, Target target, std::string help)
    : name(std::move(name)), target(target), help(std::move(help)) {}

Flag& Flag::Required() {
  required = true;
  return *this;
}

Flag& Flag::Range(int64_t least, int64_t most) {
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

std::vector<Flag> Joined(std::vector<Flag> flags, const std::vector<Flag>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

CLI::App& Register(CLI::App& parent, Session& session, Command command) {
  CLI::App& app = *parent.add_subcommand(command.name, command.help);
  std::shared_ptr<KernelHelp> help;
  if (command.kernel_help) help = std::make_shared<KernelHelp>(app);
  if (command.kernel != nullptr) {
    AddFlag(app, {"KERNEL", &command.kernel->argument, kKernelHelp});
    AddFlag(app, {"--kernel", &command.kernel->flag, kKernelFlagHelp});
  }
  for (const Flag& flag : command.flags) AddFlag(app, flag);
  for (Command& verb : command.verbs) Register(app, session, std::move(verb));
  if (!command.verbs.empty()) app.require_subcommand(command.run ? 0 : 1, 1);
  if (!command.run) return app;
  app.callback([&app, &session, help, kernel = command.kernel, run = std::move(command.run)] {
    if (!app.get_subcommands().empty()) return;
    const absl::Status status =
        help != nullptr && help->asked()
            ? help->Print(session, kernel->argument.empty() ? kernel->flag : kernel->argument)
            : run();
    if (!status.ok()) session.Finish(status);
  });
  return app;
}

}  // namespace tune::client
