// SPDX-License-Identifier: Apache-2.0
// tunerd: the daemon.
#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "apps/tunerd_notify.h"
#include "apps/tunerd_settings.h"
#include "client/web/web_server.h"
#include "server/log.h"
#include "server/server.h"

namespace {

using tune::server::LogFormat;
using ReadAgain = std::function<absl::StatusOr<tune::Settings>()>;

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

// Signals that end a process unless it does something about them, other than those of its own
// faults and those that stop it. Blocked in every thread, so that only AwaitStop gets them,
// whatever moment they come at.
sigset_t BlockSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int other : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP,  // faults
                          SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGURG,
                          SIGWINCH,             // end nothing
                          SIGPIPE, SIGXFSZ}) {  // errors of the calls that cause them
    sigdelset(&signals, other);
  }
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  // A daemon in the background may write to its terminal.
  for (const int ignored : {SIGPIPE, SIGXFSZ, SIGTTIN, SIGTTOU}) signal(ignored, SIG_IGN);
  return signals;
}

// Reads the certificates and the settings again. Settings that are wrong change nothing.
void Reload(const ReadAgain& read_again, tune::server::Server& server, tune::Settings& settings) {
  spdlog::info("hangup: the certificates are read again, and the settings");
  server.ReadCertificates();
  absl::StatusOr<tune::Settings> now = read_again();
  absl::Status status = now.status();
  if (status.ok()) status = tune::server::SetLogLevel(now->log_level);
  if (!status.ok()) {
    spdlog::error("the settings stay as they are: {}", status.ToString());
    return;
  }
  server.SetClientRules(now->options.clients);
  const tune::ChangedKeys changed = tune::Compare(settings, *now);
  if (!changed.reloadable.empty()) {
    spdlog::info("changed: {}", absl::StrJoin(changed.reloadable, ", "));
  }
  if (!changed.others.empty()) {
    spdlog::warn("changed by a restart only: {}", absl::StrJoin(changed.others, ", "));
  }
  for (const std::string& key : changed.reloadable) settings.texts[key] = now->texts[key];
}

// Leaves running jobs that cannot go on later their time. A further signal ends it.
void Drain(const sigset_t& signals, tune::server::Server& server, uint32_t seconds) {
  constexpr timespec kLook = {.tv_sec = 0, .tv_nsec = 100'000'000};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  server.SetDraining(true);
  while (server.running_jobs() > 0 && std::chrono::steady_clock::now() < deadline) {
    if (sigtimedwait(&signals, nullptr, &kLook) > 0) return;
    tune::NotifySystemd("WATCHDOG=1");
  }
}

// The next signal. Meanwhile systemd's watchdog learns that the scheduler answers.
int NextSignal(const sigset_t& signals, tune::server::Server& server) {
  const std::optional<absl::Duration> period = tune::WatchdogPeriod();
  const timespec pause = absl::ToTimespec(period.value_or(absl::Hours(1)));
  while (true) {
    const int received = sigtimedwait(&signals, nullptr, &pause);
    if (received > 0) return received;
    (void)server.running_jobs();  // hangs if the scheduler does
    if (period) tune::NotifySystemd("WATCHDOG=1");
  }
}

// Until a signal asks the daemon to stop.
void AwaitStop(const sigset_t& signals, tune::server::Server& server, tune::Settings settings,
               const ReadAgain& read_again) {
  tune::NotifySystemd("READY=1");
  int received = 0;
  while ((received = NextSignal(signals, server)) == SIGHUP) {
    Reload(read_again, server, settings);
  }
  tune::NotifySystemd("STOPPING=1");
  spdlog::info("stopping: {}", strsignal(received));
  if (received == SIGTERM && settings.drain_seconds > 0)
    Drain(signals, server, settings.drain_seconds);
}

// Returns freed memory to the system: large blocks at once, and only few threads keep some for
// themselves.
void BoundFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  mallopt(M_ARENA_MAX, 16);
#endif
}

// Distributions build absl to look for cycles at each lock, gRPC's included: 5 % of a connection.
void SeekNoCyclesOfLocks() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

// Each connection takes a descriptor or two: as many as the operator allows.
void UseAllOpenFiles() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

// The last lines are written before the process ends, if somebody reads them.
int End(int code) {
  constexpr absl::Duration kLogPatience = absl::Seconds(1);
  tune::server::FlushDaemonLog(kLogPatience);
  return code;
}

int Fail(const absl::Status& status) {
  tune::server::LogFailure(status);
  return End(kExitFailed);
}

// Checks what the settings name, and starts nothing.
int CheckConfig(const tune::Settings& settings) {
  absl::Status checked = tune::server::CheckLogLevel(settings.log_level);
  if (checked.ok()) checked = tune::server::Server::Check(settings.options);
  if (!checked.ok()) return Fail(checked);
  std::puts("the settings are in order");
  return 0;
}

// The server of the page; null without an address.
absl::StatusOr<std::unique_ptr<tune::client::WebServer>> BindWeb(
    const std::string& address, tune::server::ServerOptions& options) {
  if (address.empty()) return nullptr;
  auto web = tune::client::WebServer::Bind(address);
  if (!web.ok()) return web.status();
  options.web_url = (*web)->url();
  spdlog::info("the page is at {}", options.web_url);
  return web;
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<tune::Settings> read = tune::ReadSettings(argc, argv);
  if (!read.ok()) {
    tune::server::LogFailure(read.status());
    return absl::IsInvalidArgument(read.status()) ? kExitUsage : kExitFailed;
  }
  const tune::Settings& settings = *read;
  if (settings.printed) return 0;
  if (settings.check_config) return CheckConfig(settings);

  const sigset_t signals = BlockSignals();
  const absl::Status logged = tune::server::StartDaemonLog(
      settings.log_level, settings.log_json ? LogFormat::kJson : LogFormat::kText);
  if (!logged.ok()) return Fail(logged);

  BoundFreedMemory();
  SeekNoCyclesOfLocks();
  UseAllOpenFiles();
  umask(077);  // the state is its owner's; the socket is opened to the group afterwards
  tune::server::ServerOptions options = settings.options;
  options.stop = [] { kill(getpid(), SIGTERM); };  // AwaitStop gets it
  auto web = BindWeb(settings.web_address, options);
  if (!web.ok()) return Fail(web.status());
  auto server = tune::server::Server::Start(options);
  if (!server.ok()) return Fail(server.status());
  if (*web != nullptr) (*web)->Serve((*server)->InProcessChannel());
  AwaitStop(signals, **server, settings, [=] { return tune::ReadSettings(argc, argv); });
  web->reset();
  (*server)->Stop(absl::Now() + absl::Milliseconds(300));
  server->reset();
  return End(0);
}
