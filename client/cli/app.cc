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
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/command.h"
#include "client/cli/commands.h"
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
    "Tunes and benchmarks GPU kernels.\n"
    "Without a daemon, records and what was compiled are kept in $TUNE_STATE_DIR, else in\n"
    "$XDG_STATE_HOME/tunectl, else in /var/lib/tunectl for root and in ~/.local/state/tunectl\n"
    "for others. A daemon without --state-dir keeps them there, too.";
constexpr char kFooter[] =
    "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 no daemon at the address; 4 no config was ok;\n"
    "5 the gate found a kernel slower; 6 the gate could not tell; 130 interrupted. With no daemon\n"
    "running, tunectl does the work in its own process.";

void AddGlobalFlags(CLI::App& app, Session& session) {
  app.set_version_flag("--version", TUNE_VERSION);
  app.add_option("--address", session.address,
                 "Daemon: unix:/path or host:port (TLS); by default the host's, if one runs")
      ->envname("TUNE_ADDRESS");
  app.add_option("--daemon-user", session.daemon_user,
                 "User, beside you and root, whose daemon is trusted at a unix socket")
      ->envname("TUNE_DAEMON_USER");
  app.add_option("--include-root", session.tools.include_roots,
                 "NAME=DIR: a folder of headers that kernels may include from, by include_roots of "
                 "their specs; without a daemon, which has a flag of its own. May be given several "
                 "times")
      ->type_name("NAME=DIR")
      ->allow_extra_args(false);
  app.add_option("--triton-python", session.tools.triton_python,
                 "A Python that has Triton, where there is no daemon; else the first that is found")
      ->envname("TUNE_TRITON_PYTHON");
  app.add_option("--numpy-python", session.tools.numpy_python,
                 "A Python that has NumPy, where there is no daemon; else the first that is found")
      ->envname("TUNE_NUMPY_PYTHON");
  app.add_option("--tls-ca", session.tls.ca, "CA certificates that vouch for the daemon (PEM)")
      ->envname("TUNE_TLS_CA");
  app.add_option("--tls-cert", session.tls.certificate, "Our certificate (PEM)")
      ->envname("TUNE_TLS_CERT");
  app.add_option("--tls-key", session.tls.key, "Our private key (PEM), which only we may read")
      ->envname("TUNE_TLS_KEY");
  app.add_option("--token-file", session.tls.token_file,
                 "File with our token, which only we may read; by default the token in TUNE_TOKEN, "
                 "or in ~/.config/tunectl/token")
      ->envname("TUNE_TOKEN_FILE");
}

// Commands that have the dims of their kernel among their flags.
constexpr absl::string_view kCommandsWithDims[] = {
    "bench",      "best",         "compare",      "explain", "gate",
    "history",    "history add",  "kernel check", "profile", "space count",
    "space show", "space sample", "sweep"};

// The deepest command that the arguments name, if it is one of those.
const CLI::App* CommandWithDims(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = nullptr;
  std::string path;
  for (const std::string& argument : arguments) {
    const std::vector<const CLI::App*> named =
        (command == nullptr ? app : *command).get_subcommands([&](const CLI::App* subcommand) {
          return subcommand->get_name() == argument;
        });
    if (named.empty() && command == nullptr) continue;  // before it: --address and its value
    if (named.empty()) break;
    absl::StrAppend(&path, command == nullptr ? "" : " ", argument);
    command = named.front();
  }
  const auto& paths = kCommandsWithDims;
  return std::find(std::begin(paths), std::end(paths), path) == std::end(paths) ? nullptr : command;
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

// False if there is none.
bool PrintSuggestion(const std::string& suggestion) {
  if (!suggestion.empty()) std::fprintf(stderr, "tunectl: %s\n", suggestion.c_str());
  return !suggestion.empty();
}

int Parse(CLI::App& app, Session& session, std::vector<std::string> arguments) {
  const std::vector<std::string> given = arguments;
  session.json = std::find(given.begin(), given.end(), "--json") != given.end();
  if (const CLI::App* command = CommandWithDims(app, arguments); command != nullptr) {
    if (command->get_name() == "bench") {
      const auto of_benchmark = std::stable_partition(
          arguments.begin(), arguments.end(),
          [](const std::string& argument) { return !absl::StartsWith(argument, "--benchmark_"); });
      session.benchmark_flags.assign(of_benchmark, arguments.end());
      arguments.erase(of_benchmark, arguments.end());
    }
    auto split = SplitDims(arguments, LongNames(app, *command));
    if (!split.ok()) {
      session.Finish(split.status());
      return session.exit_code();
    }
    arguments = std::move(split->known);
    session.dims = std::move(split->dims);
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
    if (!PrintSuggestion(SuggestionFor(app, parsed))) {
      session.Finish(absl::InvalidArgumentError(
          absl::StrCat(error.what(), "; ", WordsOf(app), " --help lists what it takes")));
    }
    return kUsage;
  }
  // A word that was taken for a kernel, or a flag that was taken for a dim.
  if (session.exit_code() == kUsage) PrintSuggestion(SuggestionFor(app, given, session.error()));
  return session.exit_code();
}

void AddCommands(CLI::App& app, Session& session) {
  app.formatter(HelpFormatter());
  AddGlobalFlags(app, session);
  app.require_subcommand(1);
  app.footer(kFooter);
  AddSweep(app, session);
  Register(app, session, BestCommand(session));
  Register(app, session, ExplainCommand(session));
  Register(app, session, KernelCommand(session));
  Register(app, session, ImportCommand());
  Register(app, session, SpaceCommand(session));
  AddDeviceMeasures(Register(app, session, DeviceCommand(session)), session);
  AddJob(app, session);
  Register(app, session, TrialCommand(session));
  AddProfile(app, session);
  Register(app, session, RecordCommand(session));
  Register(app, session, RecordingCommand(session));
  Register(app, session, StrategyCommand(session));
  Register(app, session, ReportCommand(session));
  AddBench(app, session);
  AddCompare(app, session);
  AddGate(app, session);
  Register(app, session, BaselineCommand(session));
  Register(app, session, HistoryCommand(session));
  Register(app, session, SnapshotCommand(session));
  Register(app, session, ServerCommand(session));
  Register(app, session, TokenCommand(session));
  AddManual(app);
}

}  // namespace

std::set<std::string> FlagsBesideDims() {
  CLI::App app;
  Session session({});
  AddCommands(app, session);
  std::set<std::string> flags;
  for (absl::string_view path : kCommandsWithDims) {
    flags.merge(LongNames(app, *CommandWithDims(app, absl::StrSplit(path, ' '))));
  }
  return flags;
}

int RunTunectl(int argc, char** argv, EmbeddedServers embedded) {
  // What a reader pipes into `head` must not end a sweep with a signal.
  std::signal(SIGPIPE, SIG_IGN);
  OutputFilter filter;
  CLI::App app(kSummary, "tunectl");
  Session session(std::move(embedded));
  AddCommands(app, session);
  const int code = Parse(app, session, std::vector<std::string>(argv + 1, argv + argc));
  const int error = filter.Flush();
  if (error == 0) return code;
  std::fprintf(stderr, "tunectl: cannot write standard output: %s\n", std::strerror(error));
  return code == kDone ? kFailed : code;
}

}  // namespace tune::client
