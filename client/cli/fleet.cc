// SPDX-License-Identifier: Apache-2.0
// tunectl fleet list|drain|undrain
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "tune/v1/server.grpc.pb.h"

namespace tune::client {
namespace {

void PrintHosts(const v1::ListHostsResponse& response) {
  for (const v1::Host& host : response.hosts()) {
    std::string devices;
    for (const auto& [id, name] : host.devices()) {
      absl::StrAppend(&devices, devices.empty() ? "" : ", ", id, " ", name);
    }
    std::printf("%-16s %-8s %3u running %3u waiting  %s  %s\n", host.name().c_str(),
                host.drained() ? "drained" : "up", host.running_jobs(), host.waiting_jobs(),
                host.version().c_str(), devices.c_str());
  }
}

absl::Status List(Session& session) {
  ASSIGN_OR_RETURN(const v1::ListHostsResponse response,
                   Call(session.Connect(Need::kRead), &v1::ServerService::Stub::ListHosts, {}));
  return Print(session, response, PrintHosts);
}

absl::Status Drain(Session& session, const std::string& name, bool undo) {
  v1::DrainHostRequest request;
  request.set_name(name);
  request.set_undo(undo);
  RETURN_IF_ERROR(
      Call(session.Connect(Need::kRead), &v1::ServerService::Stub::DrainHost, request).status());
  std::printf(undo ? "host %s takes jobs again\n"
                   : "host %s drains: its jobs go on at other hosts, or end first\n",
              name.c_str());
  return absl::OkStatus();
}

}  // namespace

Command FleetCommand(Session& session) {
  const auto name = std::make_shared<std::string>();
  const auto verb = [&](const char* verb_name, const char* help, bool undo) -> Command {
    return {.name = verb_name,
            .help = help,
            .flags = {Flag("HOST", name.get(), "Name, as in 'tunectl fleet list'").Required()},
            .run = [&session, name, undo] { return Drain(session, *name, undo); }};
  };
  return {.name = "fleet",
          .help = "The hosts that share a store (tunerd --store postgresql://...)",
          .verbs = {{.name = "list",
                     .help = "List the hosts, with their devices and their jobs",
                     .json = kJsonHelp,
                     .run = [&session] { return List(session); }},
                    verb("drain", "Have a host take and start no jobs (operators only)", false),
                    verb("undrain", "Have a host take jobs again (operators only)", true)}};
}

}  // namespace tune::client
