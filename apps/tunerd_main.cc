// SPDX-License-Identifier: Apache-2.0
// tunerd: the daemon.
#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/address.h"
#include "server/log.h"
#include "server/server.h"
#include "server/state/paths.h"

namespace {

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

// Until a signal asks the daemon to stop. SIGHUP has its certificates read again.
void AwaitStop(const sigset_t& signals, tune::server::Server& server) {
  int received = 0;
  while (sigwait(&signals, &received) == 0 && received == SIGHUP) {
    spdlog::info("hangup: the certificates are read again");
    server.ReadCertificates();
  }
  spdlog::info("stopping: {}", strsignal(received));
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

// Bytes, or "64MiB".
CLI::Option* AddBytes(CLI::App& app, const std::string& name, int64_t& bytes, int64_t least,
                      int64_t most, const std::string& help) {
  return app.add_option(name, bytes, help)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::Range(least, most))
      ->capture_default_str()
      ->group("Bounds (docs/tunerd.md)");
}

template <typename T>
void AddCount(CLI::App& app, const std::string& name, T& count, T least, T most,
              const std::string& help) {
  app.add_option(name, count, help)
      ->check(CLI::Range(least, most))
      ->capture_default_str()
      ->group("Bounds (docs/tunerd.md)");
}

void AddLimits(CLI::App& app, tune::server::Limits& limits) {
  constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;
  AddCount(app, "--compile-workers", limits.compile_workers, 0, 1024,
           "Of each language; 0: one per hardware thread that has memory for one");
  AddBytes(app, "--compile-worker-bytes", limits.compile_worker_bytes, 64 * kMiB, 64 * kGiB,
           "Memory that is reckoned for a compile worker");
  AddBytes(app, "--binary-bytes", limits.binary_bytes, kKiB, tune::server::Limits::kBinaryBytesMost,
           "Of one compiled variant");
  AddBytes(app, "--gate-binary-bytes", limits.gate_binary_bytes, kMiB, 64 * kGiB,
           "Of all variants that a gate run keeps");
  AddBytes(app, "--log-bytes", limits.log_bytes, kKiB, 4 * kMiB,
           "Of a compiler's log of a variant; the rest is cut");
  AddBytes(app, "--cache-bytes", limits.cache_bytes, kMiB, 1024 * kGiB,
           "Of the compile cache on disk; the least used goes");
  AddBytes(app, "--artifact-bytes", limits.artifact_bytes, kMiB, 1024 * kGiB,
           "Of the artifacts of records on disk; those that no snapshot names go");
  AddCount(app, "--queue", limits.unfinished_jobs, 1u, 100000u, "Jobs that wait or run");
  AddCount(app, "--operator-jobs", limits.operator_jobs, 0u, 100000u,
           "Places of the queue beyond --queue that operators alone have");
  AddCount(app, "--turn-seconds", limits.turn_seconds, 1u, 3600u,
           "Device time after which a sweep makes room for another principal's job that waits");
  AddCount(app, "--job-deaths", limits.job_deaths, 1u, 1000u,
           "A sweep fails once the daemon died so often while it ran");
  AddCount(app, "--snapshots", limits.snapshots, 1u, 10000u, "Kept besides those that are pinned");
  AddCount(app, "--known-trials", limits.known_trials, 1u, 10000000u,
           "That a sweep takes over from earlier ones");
  AddCount(app, "--remembered-results", limits.remembered_results, 1u, 10000000u,
           "By which a sweep knows equal machine code");
  AddBytes(app, "--connection-bytes", limits.connection_bytes, 16 * kMiB, 64 * kGiB,
           "Of all connections and calls of clients together");
  AddCount(app, "--watchers", limits.watchers, 1u, 100000u, "Of jobs, in all");
  AddCount(app, "--watchers-per-job", limits.watchers_per_job, 1u, 100000u, "Of one job");
}

// The octal text of a mode: "0660".
std::string ReadMode(const std::string& text, mode_t& mode) {
  constexpr mode_t kMost = 0777;
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 8);
  if (text.empty() || *end != '\0' || value > kMost) return text + " is no mode: 0660, 0666";
  mode = static_cast<mode_t>(value);
  return "";
}

void AddClients(CLI::App& app, tune::server::ServerOptions& options,
                std::vector<std::string>& certificate_roles) {
  constexpr char kGroup[] = "Who may do what (docs/access.md)";
  app.add_option("--submit-group", options.clients.submit_group,
                 "Group, by name or number, whose members may submit work at a unix socket; the "
                 "socket is made that group's. Others who may connect are readers")
      ->group(kGroup);
  app.add_option_function<std::string>(
         "--socket-mode",
         [&options](const std::string& text) {
           const std::string wrong = ReadMode(text, options.socket_mode);
           if (!wrong.empty()) throw CLI::ValidationError("--socket-mode", wrong);
         },
         "Of unix sockets: who may connect. 0666 lets every user of the host read")
      ->default_str("0660")
      ->type_name("MODE")
      ->group(kGroup);
  app.add_option("--tls-principal", certificate_roles,
                 "NAME=ROLE: of clients whose certificate has the name: reader, submitter or "
                 "operator. *=ROLE: of all others with a certificate; without it, submitter. May "
                 "be given several times")
      ->type_name("NAME=ROLE")
      ->allow_extra_args(false)
      ->group(kGroup);
  AddCount(app, "--jobs-per-principal", options.clients.jobs_per_principal, 1u, 100000u,
           "Of a submitter, that wait or run");
  AddCount(app, "--device-seconds-per-principal", options.clients.device_seconds_per_principal, 0u,
           100'000'000u,
           "That a submitter's jobs may have a device within 24 hours, all together; 0: any time");
  AddCount(app, "--job-seconds-per-principal", options.clients.job_seconds_per_principal, 0u,
           100'000'000u,
           "Device time of one job of a submitter, and the largest budget of its sweeps; 0: any");
  AddBytes(app, "--kernel-bytes-per-principal", options.clients.kernel_bytes_per_principal, 1 << 20,
           int64_t{1} << 40, "Of the sources that a submitter's work keeps");
  AddBytes(app, "--stored-bytes-per-principal", options.clients.stored_bytes_per_principal, 1 << 20,
           int64_t{1} << 50,
           "Of all that a submitter's jobs keep on disk: sources, trials, samples, messages, "
           "artifacts");
  app.add_flag("--anonymous-readers", options.clients.anonymous_readers,
               "TCP clients with neither certificate nor token may look up and list")
      ->group(kGroup);
}

constexpr char kStateHelp[] =
    "Folder of the store and the compile cache; by default $TUNE_STATE_DIR, else "
    "$XDG_STATE_HOME/tunectl, else /var/lib/tunectl for root and ~/.local/state/tunectl for others";

}  // namespace

int main(int argc, char** argv) {
  tune::server::ServerOptions options{.addresses = {tune::DefaultAddress()}};
  std::vector<std::string> certificate_roles;
  std::string log_level = "info";
  bool log_json = false;
  CLI::App app("tunerd owns the GPUs of this host: it tunes kernels for tunectl and for jobs.");
  app.add_option("--state-dir", options.state_dir, kStateHelp);
  app.add_option("--snapshot-dir", options.snapshot_dir,
                 "Folder of the snapshots that jobs of this host read; by default in the state's")
      ->envname("TUNE_SNAPSHOT_DIR");
  app.add_option("--listen", options.addresses,
                 "unix:<path>, or <host>:<port> with TLS; may be given several times")
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--tls-cert", options.tls.certificate_file,
                 "Certificate chain, PEM; read again each second, and at SIGHUP");
  app.add_option("--tls-key", options.tls.key_file,
                 "Private key, PEM, that nobody else may read (chmod 600)");
  app.add_option("--tls-ca", options.tls.client_authority_file,
                 "Authority of clients' certificates, PEM: who shows one need have no token");
  AddClients(app, options, certificate_roles);
  app.add_flag("--drop-damaged-log", options.drop_damaged_log,
               "Go on without the unreadable part of a damaged write-ahead log; a copy is kept");
  AddLimits(app, options.limits);
  app.add_option("--include-root", options.include_roots,
                 "NAME=DIR: a folder of headers that kernels may include from, by include_roots of "
                 "their specs; may be given several times")
      ->type_name("NAME=DIR")
      ->allow_extra_args(false);
  app.add_flag("--allow-weak-walls", options.allow_weak_walls,
               "Run kernels even where walls around workers are missing; for trusted kernels only");
  app.add_option("--triton-python", options.triton_python,
                 "A Python that has Triton; without it the first that is found")
      ->envname("TUNE_TRITON_PYTHON");
  app.add_option("--numpy-python", options.numpy_python,
                 "A Python that has NumPy; without it the first that is found")
      ->envname("TUNE_NUMPY_PYTHON");
  app.add_option("--log-level", log_level, "debug, info, warn, error, off")->capture_default_str();
  app.add_flag("--log-json", log_json, "One JSON object a line");
  app.set_version_flag("--version", TUNE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }

  using tune::server::LogFormat;
  const sigset_t signals = BlockSignals();
  const absl::Status logged =
      tune::server::StartDaemonLog(log_level, log_json ? LogFormat::kJson : LogFormat::kText);
  if (!logged.ok()) return Fail(logged);
  auto roles = tune::server::ParseCertificateRoles(certificate_roles);
  if (!roles.ok()) return Fail(roles.status());
  options.clients.certificates = *std::move(roles);
  if (options.state_dir.empty()) {
    absl::StatusOr<std::string> state_dir = tune::server::DefaultStateDir();
    if (!state_dir.ok()) return Fail(state_dir.status());
    options.state_dir = *std::move(state_dir);
  }

  BoundFreedMemory();
  SeekNoCyclesOfLocks();
  UseAllOpenFiles();
  umask(077);  // the state is its owner's; the socket is opened to the group afterwards
  auto server = tune::server::Server::Start(options);
  if (!server.ok()) return Fail(server.status());
  AwaitStop(signals, **server);
  (*server)->Stop(absl::Now() + absl::Milliseconds(300));
  server->reset();
  return End(0);
}
