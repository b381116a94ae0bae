// SPDX-License-Identifier: Apache-2.0
// tunectl vault list|get|put|remove
#include <cstdio>
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "client/cli/call.h"
#include "client/cli/command.h"
#include "client/cli/user_file.h"
#include "client/report/format.h"
#include "tune/v1/vault.grpc.pb.h"

namespace tune::client {
namespace {

constexpr size_t kVaultFileBytesMax = size_t{64} << 10;

struct VaultFlags {
  std::string tuner;
  std::string key;
  std::string file;
  uint32_t limit = 100;
};

absl::Status ListVault(Session& session, const VaultFlags& flags) {
  v1::ListVaultEntriesRequest request;
  request.set_tuner(flags.tuner);
  request.set_limit(flags.limit);
  ASSIGN_OR_RETURN(
      const v1::ListVaultEntriesResponse response,
      Call(session.Connect(Need::kRead), &v1::VaultService::Stub::ListVaultEntries, request));
  const auto row = [](const v1::VaultEntry& entry) -> Cells {
    return {entry.tuner(), entry.owner(), TimeText(entry.stored_unix_ms()),
            BytesText(static_cast<double>(entry.value().size())), entry.key()};
  };
  return PrintList(session, "entries", response.entries(),
                   {"tuner", "owner", "stored", "size", "key"}, row,
                   "the vault has no entries; docs/adoption.md says which tuners fill it\n");
}

absl::Status Get(Session& session, const VaultFlags& flags) {
  v1::GetVaultEntryRequest request;
  request.set_tuner(flags.tuner);
  request.set_key(flags.key);
  ASSIGN_OR_RETURN(
      const v1::VaultEntry entry,
      Call(session.Connect(Need::kRead), &v1::VaultService::Stub::GetVaultEntry, request));
  std::printf("%s\n", entry.value().c_str());
  return absl::OkStatus();
}

absl::Status Put(Session& session, const VaultFlags& flags) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.file, kVaultFileBytesMax));
  v1::PutVaultEntryRequest request;
  request.set_tuner(flags.tuner);
  request.set_key(flags.key);
  request.set_value(text);
  return Call(session.Connect(), &v1::VaultService::Stub::PutVaultEntry, request).status();
}

absl::Status Remove(Session& session, const VaultFlags& flags) {
  v1::RemoveVaultEntryRequest request;
  request.set_tuner(flags.tuner);
  request.set_key(flags.key);
  return Call(session.Connect(), &v1::VaultService::Stub::RemoveVaultEntry, request).status();
}

}  // namespace

Command VaultCommand(Session& session) {
  const auto flags = std::make_shared<VaultFlags>();
  const Flag tuner = Flag("TUNER", &flags->tuner, "Name of the tuner, such as helion").Required();
  const Flag key = Flag("KEY", &flags->key, "The tuner's own key").Required();
  const auto verb = [&](std::string name, std::string help, std::vector<Flag> its_flags,
                        absl::Status (*run)(Session&, const VaultFlags&)) {
    return Command{.name = std::move(name),
                   .help = std::move(help),
                   .flags = std::move(its_flags),
                   .run = [&session, flags, run] { return run(session, *flags); }};
  };
  Command list = verb("list", "List entries, newest first",
                      {Flag("--tuner", &flags->tuner, "Only entries of this tuner"),
                       Flag("--limit", &flags->limit, kLimitHelp).Range(1, 1000)},
                      ListVault);
  list.json = kJsonHelp;
  return {
      .name = "vault",
      .help = "Winners of other tuners, which snapshots carry",
      .examples = {"tunectl vault list --tuner helion"},
      .verbs = {
          std::move(list), verb("get", "Print the value of an entry", {tuner, key}, Get),
          verb("put", "Store an entry, in the place of an older one",
               {tuner, key,
                Flag("FILE", &flags->file, "File with the value: JSON, at most 64 KiB").Required()},
               Put),
          verb("remove", "Remove an entry; snapshots that have it keep it", {tuner, key}, Remove)}};
}

}  // namespace tune::client
