// SPDX-License-Identifier: Apache-2.0
// A command of tunectl as data: its name, its flags, its verbs and what it runs. A command's file
// describes it so and includes no CLI11; command.cc alone hangs it on the parser:
//
//   Command ListCommand(Session& session) {
//     const auto flags = std::make_shared<ListFlags>();
//     return {.name = "list",
//             .help = "Jobs, newest first",
//             .flags = {Flag("--limit", &flags->limit, "Maximum number to list").Range(1, 1000),
//                       Flag("--json", &flags->json, kJsonHelp)},
//             .run = [&session, flags] { return List(session, *flags); }};
//   }
//
// `run` holds what the flags are parsed into.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/kernel_choice.h"
#include "client/cli/session.h"

namespace CLI {
class App;
}

namespace tune::client {

inline constexpr char kJsonHelp[] = "Print JSON";
inline constexpr char kDtypeHelp[] = "Data type; by default the spec's first";

// One flag ("--limit", "-n,--count") or one argument ("KERNEL"). A number or text that `target`
// holds before the parse is the default that the help names.
struct Flag {
  using Target = std::variant<bool*, std::string*, std::vector<std::string>*, std::vector<int64_t>*,
                              uint32_t*, uint64_t*, int64_t*>;

  Flag(std::string name, Target target, std::string help);

  Flag& Required();
  Flag& Range(int64_t least, int64_t most);
  Flag& OneOf(std::vector<std::string> values);
  // A list: with commas between its values, at most so many.
  Flag& Commas(int values_max = 0);
  // A list: one value each time that the flag is given.
  Flag& Repeated();
  // Another flag of the command, above this one.
  Flag& Needs(std::string other);
  Flag& NotWith(std::string other);

  std::string name;
  Target target;
  std::string help;
  bool required = false;
  bool commas = false;
  bool repeated = false;
  int values_max = 0;
  std::optional<std::pair<int64_t, int64_t>> range;
  std::vector<std::string> choices;
  std::string needs;
  std::string not_with;
};

struct Command {
  std::string name;
  std::string help;
  // Adds KERNEL and --kernel, before the other flags.
  KernelChoice* kernel = nullptr;
  // --help with a kernel also lists its dims.
  bool kernel_help = false;
  std::vector<Flag> flags;
  // Empty: the command is only its verbs.
  std::function<absl::Status()> run;
  std::vector<Command> verbs;
};

// `flags`, then `more`: for flags that several commands have.
std::vector<Flag> Joined(std::vector<Flag> flags, const std::vector<Flag>& more);

// Adds the command with its verbs to `parent`. An error that it returns becomes the session's.
CLI::App& Register(CLI::App& parent, Session& session, Command command);

// The commands, one file each; commands.h has those that still talk to CLI11.
Command BaselineCommand(Session& session);      // baseline set|list
Command BestCommand(Session& session);          // best KERNEL
Command DeviceCommand(Session& session);        // device list|show|retry
Command ExplainCommand(Session& session);       // explain KERNEL
Command FusionReportCommand(Session& session);  // report fusion
Command HistoryCommand(Session& session);       // history KERNEL, history add
Command ImportCommand();                        // import SCRIPT
Command KernelCommand(Session& session);        // kernel list|show|check
Command KernelNewCommand();                     // kernel new
Command RecordCommand(Session& session);        // record list
Command RecordingCommand(Session& session);     // recording show|convert|from-sweep|spec
Command ReportCommand(Session& session);        // report roofline|sweep|compare
Command ServerCommand(Session& session);        // server status, server cache clear
Command SnapshotCommand(Session& session);      // snapshot list|show|diff|pin|...
Command SpaceCommand(Session& session);         // space count|show|sample
Command StrategyCommand(Session& session);      // strategy list|compare
Command TokenCommand(Session& session);         // token create|list|revoke
Command TrialCommand(Session& session);         // trial list

}  // namespace tune::client
