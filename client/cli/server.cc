// SPDX-License-Identifier: Apache-2.0
// tunectl server status, tunectl server cache clear
#include <cstdio>

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
      {"state", server.state_dir()},
      {"memory", BytesText(server.resident_bytes())},
      {"jobs", absl::StrCat(server.running_jobs(), " running, ", server.queued_jobs(), " queued; ",
                            server.bounds().unfinished_jobs(), " at most, and ",
                            server.bounds().operator_jobs(), " more of operators")},
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
      {"sqlite", absl::StrCat(server.sqlite_version(), ", schema ", server.schema_version())}};
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

}  // namespace

Command ServerCommand(Session& session) {
  return {.name = "server",
          .help = "The daemon",
          .verbs = {{.name = "status",
                     .help = "Show whether a daemon runs, and its state",
                     .json = kJsonHelp,
                     .run = [&session] { return Status(session); }},
                    {.name = "cache",
                     .help = "The daemon's cache of compiled variants",
                     .verbs = {{.name = "clear",
                                .help = "Remove every compiled variant; each is compiled again "
                                        "when it is needed (operators only)",
                                .json = kJsonHelp,
                                .run = [&session] { return ClearCache(session); }}}}}};
}

}  // namespace tune::client
