// SPDX-License-Identifier: Apache-2.0
// A command of tunectl as data: its name, its flags, its verbs and what it runs. A command's file
// describes it so and includes no CLI11; command.cc alone hangs it on the parser:
//
//   Command ListCommand(Session& session) {
//     const auto flags = std::make_shared<ListFlags>();
//     return {.name = "list",
//             .help = "List jobs, newest first",
//             .json = kJsonHelp,
//             .flags = {Flag("--limit", &flags->limit, kLimitHelp).Range(1, 1000)},
//             .run = [&session, flags] { return List(session, *flags); }};
//   }
//
// `run` holds what the flags are parsed into. A flag of all commands is added in AddFlags of
// command.cc, or, if it comes before the command, in TunectlCommand of app.cc.
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
#include "client/cli/problem_flags.h"
#include "client/cli/session.h"

namespace CLI {
class App;
}

namespace tune::client {

inline constexpr char kJsonHelp[] = "Print JSON";
inline constexpr char kLimitHelp[] = "Maximum number to list";
inline constexpr char kDtypeHelp[] = "Data type; by default the spec's first";
inline constexpr char kDeviceHelp[] =
    "Device id, such as cuda:0 or cpu; by default the first GPU, else the CPU. any: the first free "
    "GPU of those like the default; a name, such as 'NVIDIA H200': the first free one of that name";
inline constexpr char kWarmHelp[] = "Leave the cache warm between samples";
inline constexpr char kFolderHelp[] = "Folder of the kernels in a revision";
inline constexpr char kKernelsHelp[] = "Names of the kernels, separated by commas; by default all";

// A flag ("--limit", "-n,--count") or an argument ("KERNEL"). A number or text that `target`
// holds before the parse is the default that the help names.
struct Flag {
  using Target = std::variant<bool*, std::string*, std::vector<std::string>*, std::vector<int64_t>*,
                              uint32_t*, uint64_t*, int64_t*, double*, std::optional<double>*>;

  Flag(std::string name, Target target, std::string help);

  Flag& Required();
  Flag& Range(double least, double most);
  Flag& OneOf(std::vector<std::string> values);
  // A list: with commas between its values, at most so many.
  Flag& Commas(int values_max = 0);
  // A list: one value each time that the flag is given.
  Flag& Repeated();
  // Another flag of the command.
  Flag& Needs(std::string other);
  Flag& NotWith(std::string other);
  // The value's name in the help: "DAYS".
  Flag& Value(std::string value);
  // A variable that gives the value if the flag does not.
  Flag& Env(std::string variable);

  std::string name;
  Target target;
  std::string help;
  bool required = false;
  bool commas = false;
  bool repeated = false;
  int values_max = 0;
  std::optional<std::pair<double, double>> range;
  std::vector<std::string> choices;
  std::string needs;
  std::string not_with;
  std::string value;
  std::string env;
};

struct Command {
  std::string name;
  std::string help;  // one line
  // Command lines, shown under the flags of the command's own help.
  std::vector<std::string> examples;
  // Text after the examples.
  std::string notes;
  // Adds KERNEL and --kernel, before the other flags.
  KernelChoice* kernel = nullptr;
  // Further flags are dims, for Session::dims. With `kernel`, --help lists those of the kernel.
  bool dims = false;
  // The words after "--" are a program and its arguments, for Session::program.
  bool program = false;
  // The help of --json, which sets Session::json; empty: the command prints no JSON.
  std::string json;
  std::vector<Flag> flags;
  // Empty: the command is only its verbs.
  std::function<absl::Status()> run;
  std::vector<Command> verbs;
};

// --dtype and --device, of best and explain.
std::vector<Flag> QuestionFlags(ProblemFlags& problem);
// --dtype, --device, --seed and --warm, of commands that measure.
std::vector<Flag> MeasuredFlags(ProblemFlags& problem);
// `flags`, then `more`: for flags that several commands have.
std::vector<Flag> Joined(std::vector<Flag> flags, const std::vector<Flag>& more);

// Adds the command's flags, verbs and callback to `app`. An error that it returns becomes the
// session's.
void Fill(CLI::App& app, Session& session, const Command& command);

// The commands, one file each.
Command BaselineCommand(Session& session);   // baseline set|list
Command BenchCommand(Session& session);      // bench KERNEL...
Command BestCommand(Session& session);       // best KERNEL
Command CompareCommand(Session& session);    // compare KERNEL..., compare list|show
Command DeviceCommand(Session& session);     // device list|show|retry|ceilings|calibrate
Command DoctorCommand(Session& session);     // doctor
Command ExplainCommand(Session& session);    // explain KERNEL
Command GateCommand(Session& session);       // gate
Command HistoryCommand(Session& session);    // history KERNEL, history add
Command ImportCommand();                     // import SCRIPT
Command JobCommand(Session& session);        // job list|watch|wait|cancel|prune
Command KernelCommand(Session& session);     // kernel list|show|check|new
Command ProfileCommand(Session& session);    // profile KERNEL
Command RecordCommand(Session& session);     // record list
Command RecordingCommand(Session& session);  // recording show|convert|from-sweep|spec
Command ReportCommand(Session& session);     // report roofline|sweep|compare|fusion
Command RunCommand(Session& session);        // run -- PROGRAM
Command ServerCommand(Session& session);     // server status|drain|stop, server cache clear
Command SnapshotCommand(Session& session);   // snapshot list|show|diff|pin|...
Command SpaceCommand(Session& session);      // space count|show|sample
Command StoreCommand(Session& session);      // store check|backup|restore
Command FleetCommand(Session& session);      // fleet list|drain|undrain
Command StrategyCommand(Session& session);   // strategy list|compare
Command SweepCommand(Session& session);      // sweep KERNEL
Command TokenCommand(Session& session);      // token create|list|revoke
Command TrialCommand(Session& session);      // trial list
Command VaultCommand(Session& session);      // vault list|get|put|remove

}  // namespace tune::client
