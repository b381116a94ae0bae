// SPDX-License-Identifier: Apache-2.0
#include "client/app.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/commands/commands.h"
#include "client/dim_flags.h"
#include "client/manual.h"
#include "client/session.h"

#ifndef TUNE_VERSION
#error "TUNE_VERSION is set by the build"
#endif

namespace tune::client {
namespace {

constexpr char kFooter[] =
    "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 no daemon at the address; 4 no config was ok;\n"
    "5 the gate found a kernel slower; 6 the gate could not tell; 130 interrupted. With no daemon\n"
    "running, tunectl does the work in its own process.";

void AddGlobalFlags(CLI::App& app, Session& session) {
  app.set_version_flag("--version", TUNE_VERSION);
  app.add_option("--address", session.address,
                 "Daemon: unix:/path or host:port (TLS); by default the host's, if one runs")
      ->envname("TUNE_ADDRESS");
  app.add_option("--tls-ca", session.tls.ca, "CA certificates that vouch for the daemon (PEM)");
  app.add_option("--tls-cert", session.tls.certificate, "Our certificate (PEM)");
  app.add_option("--tls-key", session.tls.key, "Our private key (PEM)");
}

// The deepest subcommand that the arguments name, if its kernel's dims are among its flags.
const CLI::App* CommandWithDims(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : "";
    if (arguments[i] == "best") return app.get_subcommand("best");
    if (arguments[i] == "kernel" && next == "check") {
      return app.get_subcommand("kernel")->get_subcommand("check");
    }
    if (arguments[i] == "sweep") {
      const CLI::App* sweep = app.get_subcommand("sweep");
      const bool verb = next == "list" || next == "watch" || next == "cancel";
      return verb ? nullptr : sweep;
    }
    if (arguments[i] == "gate") {
      const bool verb =
          next == "list" || next == "show" || next == "replay" || next == "resample";
      return verb ? nullptr : app.get_subcommand("gate");
    }
    if (arguments[i] == "history") {
      const CLI::App* history = app.get_subcommand("history");
      return next == "record" ? history->get_subcommand("record") : history;
    }
  }
  return nullptr;
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

int Parse(CLI::App& app, Session& session, std::vector<std::string> arguments) {
  if (const CLI::App* command = CommandWithDims(app, arguments); command != nullptr) {
    auto split = SplitDims(arguments, LongNames(app, *command));
    if (!split.ok()) {
      session.Finish(split.status());
      return session.exit_code();
    }
    arguments = std::move(split->known);
    session.dims = std::move(split->dims);
  }
  // CLI11 takes them last first.
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return session.exit_code();
}

}  // namespace

int RunTunectl(int argc, char** argv, StartEmbedded start_embedded) {
  // What a reader pipes into `head` must not end a sweep with a signal.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Tunes and benchmarks GPU kernels.", "tunectl");
  Session session(std::move(start_embedded));
  AddGlobalFlags(app, session);
  app.require_subcommand(1);
  app.footer(kFooter);
  AddSweep(app, session);
  AddBest(app, session);
  AddKernel(app, session);
  AddDevice(app, session);
  AddTrial(app, session);
  AddGate(app, session);
  AddBaseline(app, session);
  AddHistory(app, session);
  AddServer(app, session);
  AddManual(app);
  return Parse(app, session, std::vector<std::string>(argv + 1, argv + argc));
}

}  // namespace tune::client
