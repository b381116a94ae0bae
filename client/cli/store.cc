// SPDX-License-Identifier: Apache-2.0
// tunectl store check|backup|restore
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/report/format.h"
#include "tune/v1/store.grpc.pb.h"

namespace tune::client {
namespace {

constexpr auto kStoreTimeout = std::chrono::hours(1);

struct StoreFlags {
  uint32_t keep = 7;
  std::string file;
};

void PrintChecked(const v1::CheckStoreResponse& response) {
  std::printf("%s is whole (%s)\n", response.path().c_str(), BytesText(response.bytes()).c_str());
}

absl::Status Check(Session& session) {
  ASSIGN_OR_RETURN(
      const v1::CheckStoreResponse response,
      Call(session.Connect(Need::kRead), &v1::StoreService::Stub::CheckStore, {}, kStoreTimeout));
  return Print(session, response, PrintChecked);
}

void PrintBackup(const v1::BackUpStoreResponse& response) {
  std::printf("%s (%s)\n", response.path().c_str(), BytesText(response.bytes()).c_str());
  for (const std::string& path : response.removed()) std::printf("removed %s\n", path.c_str());
}

absl::Status BackUp(Session& session, const StoreFlags& flags) {
  v1::BackUpStoreRequest request;
  request.set_keep(flags.keep);
  ASSIGN_OR_RETURN(const v1::BackUpStoreResponse response,
                   Call(session.Connect(Need::kRead), &v1::StoreService::Stub::BackUpStore, request,
                        kStoreTimeout));
  return Print(session, response, PrintBackup);
}

absl::Status Restore(const Session& session, const StoreFlags& flags) {
  ASSIGN_OR_RETURN(const std::string kept, session.RestoreStore(flags.file));
  std::printf("restored %s%s\n", flags.file.c_str(),
              kept.empty() ? "" : absl::StrCat("; the store before is ", kept).c_str());
  return absl::OkStatus();
}

}  // namespace

Command StoreCommand(Session& session) {
  const auto flags = std::make_shared<StoreFlags>();
  return {
      .name = "store",
      .help = "The file of all jobs, trials, records and tokens: checks and backups",
      .verbs = {
          {.name = "check",
           .help = "Check the whole file and its references (operators only)",
           .json = kJsonHelp,
           .run = [&session] { return Check(session); }},
          {.name = "backup",
           .help = "Copy the store to the folder backups of the state, while others work with it "
                   "(operators only)",
           .notes =
               "The copy has tokens as hashes and the sources of all users. Compiled variants, "
               "artifacts and\nsnapshots are files of their own and not in it.",
           .json = kJsonHelp,
           .flags = {Flag("--keep", &flags->keep, "Newest backups to keep, this one included")
                         .Value("N")
                         .Range(1, 10000)},
           .run = [&session, flags] { return BackUp(session, *flags); }},
          {.name = "restore",
           .help = "Put a backup in the place of the store; no daemon may have it open",
           .examples = {"tunectl server stop && tunectl store restore "
                        "/var/lib/tunectl/backups/tune-20261127T163000.000.db"},
           .notes = "The state folder is $TUNE_STATE_DIR, else as of every command without a "
                    "daemon. The store that was\nthere stays beside it under another name.",
           .flags = {Flag("FILE", &flags->file, "Backup to restore").Required()},
           .run = [&session, flags] { return Restore(session, *flags); }}}};
}

}  // namespace tune::client
