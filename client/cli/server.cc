// SPDX-License-Identifier: Apache-2.0
// tunectl server status|drain|stop, tunectl server cache clear
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/role_text.h"
#include "client/cli/walls_text.h"
#include "client/report/format.h"
#include "tune/v1/server.grpc.pb.h"

namespace tune::client {
namespace {

// The daemon's certificate; empty if it has none.
std::string CertificateText(const v1::TlsCertificate& certificate) {
  if (certificate.file().empty()) return "";
  return absl::StrCat("certificate until ", TimeText(certificate.expires_unix_ms()),
                      certificate.problem().empty() ? "" : "; ", certificate.problem());
}

std::string ConnectionsText(const v1::Traffic& traffic) {
  std::string text = absl::StrCat(traffic.unix_connections(), " at unix sockets (",
                                  traffic.unix_connections_max(), " at most)");
  if (traffic.tcp_connections() + traffic.stranger_connections() > 0) {
    absl::StrAppend(&text, ", ", traffic.tcp_connections(), " by TCP (",
                    traffic.tcp_connections_max(), " at most), ", traffic.stranger_connections(),
                    " of strangers (", traffic.stranger_connections_max(), " at most)");
  }
  if (traffic.shut_connections() > 0) {
    absl::StrAppend(&text, "; ", traffic.shut_connections(), " were shut since the start");
  }
  return text;
}

// Empty: none was refused.
std::string RefusedText(const v1::Traffic& traffic) {
  if (traffic.refused_calls() == 0) return "";
  return absl::StrCat(traffic.refused_calls(), " calls since the start, ", traffic.wrong_tokens(),
                      " of them with a wrong token; the daemon's log has from where");
}

// The line for a server inside tunectl: where a daemon was looked for, and how another is reached.
std::string NoDaemonText(const v1::ServerStatus& server) {
  const std::string none = absl::StrCat("inside tunectl: no daemon answers at ", DefaultAddress());
  if (server.state_owner().empty()) {
    return absl::StrCat(none, "; --address or TUNE_ADDRESS names another's, 'tunerd' starts one");
  }
  if (!absl::StartsWith(server.state_owner(), "tunerd ")) {
    return absl::StrCat(none, "; ", server.state_owner(), " is at work in this state folder");
  }
  return absl::StrCat(none, ", but ", server.state_owner(),
                      " has this state folder: name its address with --address or TUNE_ADDRESS");
}

// "alice 3 waiting, 1 running, 52 s of device time".
std::string QueueText(const v1::PrincipalQueue& principal) {
  return absl::StrCat(principal.name().empty() ? "(nobody)" : principal.name(), ": ",
                      principal.waiting_jobs(), " waiting, ", principal.running_jobs(),
                      " running, ", DurationText(principal.device_seconds()),
                      " of device time within 24 hours");
}

// "alice: 1.2 GiB of at most 8.0 GiB: sources 3 MiB, results 1.1 GiB, artifacts 80 MiB".
std::string StoredText(const v1::StoredBytes& stored, const v1::Bounds& bounds) {
  const uint64_t all = stored.kernel_bytes() + stored.result_bytes() + stored.artifact_bytes();
  return absl::StrCat(stored.owner(), ": ", BytesText(all), "; a submitter at most ",
                      BytesText(bounds.stored_bytes_per_principal()), "; sources ",
                      BytesText(stored.kernel_bytes()), ", results ",
                      BytesText(stored.result_bytes()), ", artifacts ",
                      BytesText(stored.artifact_bytes()));
}

void PrintStatus(const v1::ServerStatus& server) {
  const std::pair<const char*, std::string> lines[] = {
      {"version", server.version()},
      {"runs", server.embedded() ? NoDaemonText(server)
                                 : absl::StrCat("as a daemon, process ", server.pid(), ", since ",
                                                TimeText(server.started_unix_ms()))},
      {"address", server.embedded() ? "" : server.address()},
      {"page", server.web_url()},
      {"state", server.state_dir()},
      {"memory", BytesText(server.resident_bytes())},
      {"jobs", absl::StrCat(server.running_jobs(), " running, ", server.queued_jobs(), " queued; ",
                            server.bounds().unfinished_jobs(), " at most, and ",
                            server.bounds().operator_jobs(), " more of operators")},
      {"drains",
       server.draining() ? "takes and starts no jobs; tunectl server drain --undo ends it" : ""},
      {"waiting",
       server.oldest_wait_seconds() == 0
           ? ""
           : absl::StrCat("the oldest for ", DurationText(server.oldest_wait_seconds()))},
      {"clients", server.embedded() ? "" : ConnectionsText(server.traffic())},
      {"refused", RefusedText(server.traffic())},
      {"files", absl::StrCat(server.traffic().open_files(), " open of at most ",
                             server.traffic().open_files_max())},
      {"disk",
       absl::StrCat(BytesText(server.traffic().state_free_bytes()), " free where the state is")},
      {"watchers", absl::StrCat(server.watchers(), " of at most ", server.bounds().watchers())},
      {"stored",
       absl::StrCat(Counted(server.trial_count(), "trial"), ", ",
                    Counted(server.record_count(), "record"), ", snapshot ", server.snapshot_id())},
      {"cache", absl::StrCat(BytesText(server.compile_cache_bytes()), " of compiled variants; ",
                             BytesText(server.bounds().cache_bytes()), " at most, ",
                             BytesText(server.bounds().binary_bytes()), " each")},
      {"compilers", absl::StrCat(server.compile_workers(), " worker processes at most")},
      {"you", absl::StrCat(server.caller().name(), ", ", RoleText(server.caller().role()))},
      {"tls", CertificateText(server.certificate())},
      {"store", absl::StrCat(server.store_engine(), ", schema ", server.schema_version())}};
  for (const auto& [title, value] : lines) {
    if (!value.empty()) std::printf("%-11s%s\n", title, value.c_str());
  }
  for (const v1::PrincipalQueue& principal : server.principals()) {
    std::printf("%-11s%s\n", "queue", QueueText(principal).c_str());
  }
  for (const v1::StoredBytes& stored : server.stored()) {
    std::printf("%-11s%s\n", "storage", StoredText(stored, server.bounds()).c_str());
  }
  if (server.withdrawn_record_count() > 0) {
    std::printf(
        "%-11s%s of unconfirmed trials, which an older daemon had published; tune their problems "
        "again\n",
        "withdrawn", Counted(server.withdrawn_record_count(), "record").c_str());
  }
  if (server.unstored_revocation_count() > 0) {
    std::printf("%-11s%s not stored yet: free some space, or a restart undoes them\n", "tokens",
                Counted(server.unstored_revocation_count(), "revocation").c_str());
  }
  for (const std::string& row : server.unreadable_rows()) {
    std::printf("%-11s%s\n", "unreadable", row.c_str());
  }
  if (server.weak_walls_allowed()) {
    std::printf("%-11s%s\n", "walls",
                "WEAK ONES ARE ALLOWED: kernels run even where walls are missing");
  }
  const std::string& watched_since = server.workers_watched_since();
  std::printf("%-11smemory of workers: %s\n", "walls",
              watched_since.empty() ? "control groups"
                                    : absl::StrCat("watched, since ", watched_since).c_str());
  for (const v1::WorkerWalls& walls : server.walls()) {
    std::printf("%-11s%s\n", "walls", WallsText(walls).c_str());
  }
}

absl::Status Status(Session& session) {
  ASSIGN_OR_RETURN(const v1::ServerStatus server,
                   Call(session.Connect(Need::kRead), &v1::ServerService::Stub::GetStatus, {}));
  return Print(session, server, PrintStatus);
}

void PrintCleared(const v1::ClearCompileCacheResponse& response) {
  std::printf("removed %s of compiled variants\n", BytesText(response.removed_bytes()).c_str());
}

absl::Status ClearCache(Session& session) {
  ASSIGN_OR_RETURN(const v1::ClearCompileCacheResponse response,
                   Call(session.Connect(), &v1::ServerService::Stub::ClearCompileCache, {}));
  return Print(session, response, PrintCleared);
}

struct DrainFlags {
  uint32_t wait_seconds = 60;
  bool undo = false;
};

absl::StatusOr<Connection*> ReachDaemon(Session& session) {
  ASSIGN_OR_RETURN(Connection* const connection, session.Connect(Need::kRead));
  if (!connection->embedded()) return connection;
  return absl::UnavailableError(
      absl::StrCat("no daemon answers at ", DefaultAddress(), "; --address names another's"));
}

// Waits until `done` is true of the daemon's status, or of the error that the question ends with.
template <typename Done>
bool WaitFor(Connection* daemon, uint32_t seconds, Done done) {
  constexpr std::chrono::milliseconds kPause(200), kAnswer(5000);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!done(Call(daemon, &v1::ServerService::Stub::GetStatus, {}, kAnswer))) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

// DEADLINE_EXCEEDED: jobs still run. They go on, and the daemon stays drained.
absl::Status DrainAndWait(Connection* daemon, uint32_t seconds) {
  RETURN_IF_ERROR(Call(daemon, &v1::ServerService::Stub::Drain, {}).status());
  uint32_t running = 0;
  const auto is_over = [&](const absl::StatusOr<v1::ServerStatus>& server) {
    if (server.ok()) running = server->running_jobs();
    return !server.ok() || running == 0;
  };
  if (WaitFor(daemon, seconds, is_over)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(Counted(running, "job"), " still run after ", seconds,
                   " s, and no others start; wait longer with --wait, cancel them with tunectl job "
                   "cancel, or go on with tunectl server drain --undo"));
}

absl::Status Drain(Session& session, const DrainFlags& flags) {
  ASSIGN_OR_RETURN(Connection* const daemon, ReachDaemon(session));
  if (!flags.undo) {
    RETURN_IF_ERROR(DrainAndWait(daemon, flags.wait_seconds));
    std::puts("drained: no job runs, and none starts");
    return absl::OkStatus();
  }
  v1::DrainRequest request;
  request.set_undo(true);
  RETURN_IF_ERROR(Call(daemon, &v1::ServerService::Stub::Drain, request).status());
  std::puts("the daemon takes and starts jobs again");
  return absl::OkStatus();
}

absl::Status Stop(Session& session, const DrainFlags& flags) {
  constexpr uint32_t kStopSeconds = 60;
  ASSIGN_OR_RETURN(Connection* const daemon, ReachDaemon(session));
  if (flags.wait_seconds > 0) RETURN_IF_ERROR(DrainAndWait(daemon, flags.wait_seconds));
  ASSIGN_OR_RETURN(const v1::StopServerResponse response,
                   Call(daemon, &v1::ServerService::Stub::StopServer, {}));
  const auto has_ended = [](const absl::StatusOr<v1::ServerStatus>& server) {
    return absl::IsUnavailable(server.status());
  };
  if (!WaitFor(daemon, kStopSeconds, has_ended)) {
    return absl::DeadlineExceededError(absl::StrCat("tunerd (process ", response.pid(),
                                                    ") has not stopped within ", kStopSeconds,
                                                    " s; its log says what it waits for"));
  }
  std::printf("tunerd (process %u) has stopped\n", response.pid());
  return absl::OkStatus();
}

std::vector<Command> EndVerbs(Session& session) {
  auto drain = std::make_shared<DrainFlags>();
  auto stop = std::make_shared<DrainFlags>();
  stop->wait_seconds = 0;
  const auto wait = [](DrainFlags& flags, const char* help) {
    return Flag("--wait", &flags.wait_seconds, help).Value("SECONDS").Range(0, 86400);
  };
  return {{.name = "drain",
           .help = "Take and start no more jobs, and wait for those that run (operators only)",
           .notes = "Sweeps that run stop, keep their trials and go on after --undo or a restart. "
                    "Other jobs run to\ntheir end. Look-ups go on. Exits with 1 if jobs still run.",
           .flags = {wait(*drain, "Time to wait for jobs that run"),
                     Flag("--undo", &drain->undo, "Take and start jobs again").NotWith("--wait")},
           .run = [&session, drain] { return Drain(session, *drain); }},
          {.name = "stop",
           .help = "Stop the daemon; sweeps go on at its next start (operators only)",
           .notes = "Without --wait it does what SIGTERM does: see tunerd --drain-seconds.",
           .flags = {wait(*stop, "First drain the daemon, and wait so long for jobs that run")},
           .run = [&session, stop] { return Stop(session, *stop); }}};
}

}  // namespace

Command ServerCommand(Session& session) {
  Command server = {.name = "server",
                    .help = "The daemon",
                    .verbs = {{.name = "status",
                               .help = "Show whether a daemon runs, and its state",
                               .json = kJsonHelp,
                               .run = [&session] { return Status(session); }}}};
  for (Command& verb : EndVerbs(session)) server.verbs.push_back(std::move(verb));
  server.verbs.push_back({.name = "cache",
                          .help = "The daemon's cache of compiled variants",
                          .verbs = {{.name = "clear",
                                     .help = "Remove every compiled variant; each is compiled "
                                             "again when it is needed (operators only)",
                                     .json = kJsonHelp,
                                     .run = [&session] { return ClearCache(session); }}}});
  return server;
}

}  // namespace tune::client
