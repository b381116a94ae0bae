// SPDX-License-Identifier: Apache-2.0
// tunerd: the daemon.
#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "absl/time/clock.h"
#include "client/address.h"
#include "server/log.h"
#include "server/paths.h"
#include "server/server.h"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// Blocked in every thread, so that only this function gets them.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// What is freed goes back to the system: large blocks at once, and few threads keep some for
// themselves.
void BoundFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  mallopt(M_ARENA_MAX, 16);
#endif
}

int Fail(const absl::Status& status) {
  std::cerr << "tunerd: " << status.message() << "\n";
  return kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  tune::server::ServerOptions options{.address = tune::client::DefaultAddress()};
  std::string log_level = "info";
  bool log_json = false;
  CLI::App app("tunerd owns the GPUs of this host: it tunes kernels for tunectl and for jobs.");
  app.add_option("--state-dir", options.state_dir, "Folder of the store and the compile cache");
  app.add_option("--listen", options.address, "unix:<path>, or <host>:<port> with TLS")
      ->capture_default_str();
  app.add_option("--tls-cert", options.tls.certificate_file, "Certificate chain, PEM");
  app.add_option("--tls-key", options.tls.key_file, "Private key, PEM");
  app.add_option("--tls-ca", options.tls.client_authority_file,
                 "Clients must show a certificate of this authority, PEM");
  app.add_option("--compile-workers", options.compile_workers, "0: one per hardware thread")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--allow-weak-walls", options.allow_weak_walls,
               "Run kernels even where walls around workers are missing; for trusted kernels only");
  app.add_option("--log-level", log_level, "debug, info, warn, error, off")->capture_default_str();
  app.add_flag("--log-json", log_json, "One JSON object a line");
  app.set_version_flag("--version", TUNE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }

  using tune::server::LogFormat;
  const absl::Status logged =
      tune::server::StartLog(log_level, log_json ? LogFormat::kJson : LogFormat::kText);
  if (!logged.ok()) return Fail(logged);
  if (options.state_dir.empty()) {
    absl::StatusOr<std::string> state_dir = tune::server::DefaultStateDir();
    if (!state_dir.ok()) return Fail(state_dir.status());
    options.state_dir = *std::move(state_dir);
  }

  BoundFreedMemory();
  umask(077);  // the state is its owner's; the socket is opened to the group afterwards
  const sigset_t signals = BlockStopSignals();
  auto server = tune::server::Server::Start(options);
  if (!server.ok()) return Fail(server.status());
  int received = 0;
  sigwait(&signals, &received);
  spdlog::info("stopping: {}", strsignal(received));
  (*server)->Stop(absl::Now() + absl::Milliseconds(300));
  return 0;
}
