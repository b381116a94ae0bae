// SPDX-License-Identifier: Apache-2.0
#include "client/cli/app.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/command.h"
#include "client/cli/dim_flags.h"
#include "client/cli/manual.h"
#include "client/cli/session.h"
#include "client/cli/suggestion.h"
#include "client/report/terminal.h"

#ifndef TUNE_VERSION
#error "TUNE_VERSION is set by the build"
#endif

namespace tune::client {
namespace {

constexpr char kSummary[] =
    "Tune and benchmark GPU kernels.\n"
    "Records and compiled kernels are stored in $TUNE_STATE_DIR, else in $XDG_STATE_HOME/tunectl,\n"
    "else in /var/lib/tunectl for root and in ~/.local/state/tunectl for others; by a daemon in "
    "its\n"
    "--state-dir, if it has one.";
constexpr char kExitCodes[] =
    "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 no daemon at the address; 4 no config was ok;\n"
    "5 the gate found a kernel slower; 6 the gate could not decide; 130 interrupted. If no daemon\n"
    "runs, tunectl does the work in its own process.";

std::vector<Flag> GlobalFlags(Session& session) {
  return {
      Flag("--address", &session.address,
           "Daemon: unix:/path or host:port (TLS); by default the host's, if one runs")
          .Env("TUNE_ADDRESS"),
      Flag("--daemon-user", &session.daemon_user,
           "User whose daemon is trusted at a unix socket, besides you and root")
          .Env("TUNE_DAEMON_USER"),
      Flag("--include-root", &session.tools.include_roots,
           "Folder of headers that kernels may include from, by include_roots of their specs; "
           "without a daemon, which has a flag of its own. May be given several times")
          .Value("NAME=DIR")
          .Repeated(),
      Flag("--triton-python", &session.tools.triton_python,
           "Python that has Triton, without a daemon; by default the first that is found")
          .Env("TUNE_TRITON_PYTHON"),
      Flag("--numpy-python", &session.tools.numpy_python,
           "Python that has NumPy, without a daemon; by default the first that is found")
          .Env("TUNE_NUMPY_PYTHON"),
      Flag("--tls-ca", &session.tls.ca, "CA certificates that vouch for the daemon (PEM)")
          .Env("TUNE_TLS_CA"),
      Flag("--tls-cert", &session.tls.certificate, "Your certificate (PEM)").Env("TUNE_TLS_CERT"),
      Flag("--tls-key", &session.tls.key, "Your private key (PEM), which only you may read")
          .Env("TUNE_TLS_KEY"),
      Flag("--token-file", &session.tls.token_file,
           "File with your token, which only you may read; by default the token in TUNE_TOKEN, or "
           "in ~/.config/tunectl/token")
          .Env("TUNE_TOKEN_FILE")};
}

// The program as a command: its verbs are the commands.
Command TunectlCommand(const CLI::App& app, Session& session) {
  return {.name = "tunectl",
          .help = kSummary,
          .notes = kExitCodes,
          .flags = GlobalFlags(session),
          .verbs = {SweepCommand(session),    BestCommand(session),     ExplainCommand(session),
                    KernelCommand(session),   ImportCommand(),          SpaceCommand(session),
                    DeviceCommand(session),   JobCommand(session),      TrialCommand(session),
                    ProfileCommand(session),  RecordCommand(session),   RecordingCommand(session),
                    StrategyCommand(session), ReportCommand(session),   BenchCommand(session),
                    CompareCommand(session),  GateCommand(session),     BaselineCommand(session),
                    HistoryCommand(session),  SnapshotCommand(session), ServerCommand(session),
                    RunCommand(session),      TokenCommand(session),    StoreCommand(session),
                    FleetCommand(session),    VaultCommand(session),    DoctorCommand(session),
                    HelpCommand(app)}};
}

// The parser of the commands, and what it was made of.
struct Program {
  explicit Program(Session& session) : commands(TunectlCommand(app, session)) {
    app.formatter(HelpFormatter());
    app.set_version_flag("--version", TUNE_VERSION, "Print the version");
    Fill(app, session, commands);
  }
  Program(const Program&) = delete;  // the parser's callbacks hold the addresses of its parts
  Program& operator=(const Program&) = delete;

  CLI::App app{kSummary, "tunectl"};
  const Command commands;
};

// A command, and its parser.
struct Named {
  const CLI::App* app;
  const Command* command;
};

// The deepest command that the arguments name.
Named CommandIn(const Program& program, const std::vector<std::string>& arguments) {
  Named named{&program.app, &program.commands};
  for (const std::string& argument : arguments) {
    const auto& verbs = named.command->verbs;
    const auto verb = std::find_if(verbs.begin(), verbs.end(),
                                   [&](const Command& one) { return one.name == argument; });
    if (verb != verbs.end()) {
      named = {named.app->get_subcommand(argument), &*verb};
    } else if (named.command != &program.commands) {
      break;  // else it comes before the command: --address and its value
    }
  }
  return named;
}

std::set<std::string> LongNames(const CLI::App& app, const CLI::App& command) {
  std::set<std::string> names;
  for (const CLI::App* level : {&app, &command}) {
    for (const CLI::Option* option : level->get_options()) {
      names.insert(option->get_lnames().begin(), option->get_lnames().end());
    }
  }
  return names;
}

// The command that was parsed, as it is typed: "tunectl snapshot import".
std::string WordsOf(const CLI::App& app) {
  std::string words = "tunectl";
  for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    absl::StrAppend(&words, " ", command->get_name());
  }
  return words;
}

// CLI11's text of an error; of a value that is no number with what was expected.
std::string ErrorText(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "Could not convert: ")) return text;
  const std::pair<std::string, std::string> sides = absl::StrSplit(rest, absl::MaxSplits(" = ", 1));
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const CLI::Option* option = command->get_option_no_throw(sides.first);
  if (option == nullptr) option = app.get_option_no_throw(sides.first);
  return absl::StrCat(sides.first, " '", sides.second, "' is not a number",
                      option == nullptr ? "" : absl::StrCat(": ", option->get_description()));
}

// False if there is none.
bool PrintSuggestion(const std::string& suggestion) {
  if (!suggestion.empty()) std::fprintf(stderr, "tunectl: %s\n", suggestion.c_str());
  return !suggestion.empty();
}

int Parse(Program& program, Session& session, std::vector<std::string> arguments) {
  CLI::App& app = program.app;
  const Named named = CommandIn(program, arguments);
  if (named.command->program) {
    const auto end = std::find(arguments.begin(), arguments.end(), "--");
    if (end != arguments.end()) session.program.assign(end + 1, arguments.end());
    arguments.erase(end, arguments.end());
  }
  const std::vector<std::string> given = arguments;
  session.json = std::find(given.begin(), given.end(), "--json") != given.end();
  if (named.command->dims) {
    if (named.command->name == "bench") {
      const auto of_benchmark = std::stable_partition(
          arguments.begin(), arguments.end(),
          [](const std::string& argument) { return !absl::StartsWith(argument, "--benchmark_"); });
      session.benchmark_flags.assign(of_benchmark, arguments.end());
      arguments.erase(of_benchmark, arguments.end());
    }
    auto split = SplitDims(arguments, LongNames(app, *named.app));
    if (!split.ok()) {
      session.Finish(split.status());
      return session.exit_code();
    }
    arguments = std::move(split->known);
    session.dims = std::move(split->dims);
    const auto dims = ParseDims(session.dims);
    const std::string flag =
        dims.ok() ? "" : SuggestionFor(app, given, std::string(dims.status().message()));
    if (!flag.empty()) {
      session.Finish(absl::InvalidArgumentError(flag));
      return session.exit_code();
    }
  }
  const std::vector<std::string> parsed = arguments;
  // CLI11 takes them last first.
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = app.exit(error, out, err);
    std::fputs(out.str().c_str(), stdout);
    if (code == 0) return kDone;
    const bool is_count = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
    if (!PrintSuggestion(SuggestionFor(app, parsed)) &&
        !(is_count && PrintSuggestion(SurplusWordIn(app, given)))) {
      session.Finish(absl::InvalidArgumentError(
          absl::StrCat(ErrorText(app, error), "; ", WordsOf(app), " --help lists what it takes")));
    }
    return kUsage;
  }
  // A word that was taken for a kernel, or a flag that was taken for a dim.
  if (session.exit_code() == kUsage) PrintSuggestion(SuggestionFor(app, given, session.error()));
  return session.exit_code();
}

void AddNamesBesideDims(const CLI::App& root, const CLI::App& app, const Command& command,
                        std::set<std::string>& names) {
  if (command.dims) names.merge(LongNames(root, app));
  for (const Command& verb : command.verbs) {
    AddNamesBesideDims(root, *app.get_subcommand(verb.name), verb, names);
  }
}

}  // namespace

std::set<std::string> FlagsBesideDims() {
  Session session({});
  const Program program(session);
  std::set<std::string> flags;
  AddNamesBesideDims(program.app, program.app, program.commands, flags);
  return flags;
}

int RunTunectl(int argc, char** argv, EmbeddedServers embedded) {
  // A closed pipe, as of `head`, must not end a sweep with a signal.
  std::signal(SIGPIPE, SIG_IGN);
  OutputFilter filter;
  Session session(std::move(embedded));
  Program program(session);
  const int code = Parse(program, session, std::vector<std::string>(argv + 1, argv + argc));
  const int error = filter.Flush();
  session.PrintPage();
  if (error == 0) return code;
  std::fprintf(stderr, "tunectl: cannot write standard output: %s\n", std::strerror(error));
  return code == kDone ? kFailed : code;
}

}  // namespace tune::client
