// SPDX-License-Identifier: Apache-2.0
#include "server/store_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/modules.h"
#include "server/rpc/unary.h"
#include "server/state/paths.h"

namespace tune::server {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kStoreCap = absl::Hours(1);
constexpr uint32_t kKept = 7;
constexpr char kBackupPrefix[] = "tune-";

uint64_t BytesOf(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

// The backups of a folder, oldest first, as their names sort.
std::vector<std::string> BackupsIn(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (absl::StartsWith(name, kBackupPrefix) && absl::EndsWith(name, ".db")) {
      paths.push_back(entry->path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

grpc::ServerUnaryReactor* StoreService::CheckStore(grpc::CallbackServerContext* context,
                                                   const v1::CheckStoreRequest*,
                                                   v1::CheckStoreResponse* response) {
  const auto check = [=, this](const Cancelled& cancelled) -> absl::Status {
    RETURN_IF_ERROR(store_.CheckAll(cancelled));
    response->set_path(StorePath(state_dir_));
    response->set_bytes(BytesOf(response->path()));
    return absl::OkStatus();
  };
  return AnswerOn(executors_.heavy, context, kStoreCap, check);
}

grpc::ServerUnaryReactor* StoreService::BackUpStore(grpc::CallbackServerContext* context,
                                                    const v1::BackUpStoreRequest* request,
                                                    v1::BackUpStoreResponse* response) {
  const auto back_up = [=, this](const Cancelled&) -> absl::Status {
    const std::string folder = state_dir_ + "/backups";
    RETURN_IF_ERROR(MakePrivateDir(folder));
    const std::string path =
        absl::StrCat(folder, "/", kBackupPrefix,
                     absl::FormatTime("%Y%m%dT%H%M%E3S", absl::Now(), absl::UTCTimeZone()), ".db");
    RETURN_IF_ERROR(store_.BackUp(path));
    response->set_path(path);
    response->set_bytes(BytesOf(path));
    std::vector<std::string> all = BackupsIn(folder);
    const size_t keep = request->keep() == 0 ? kKept : request->keep();
    for (size_t i = 0; i + keep < all.size(); ++i) {
      std::error_code error;
      if (fs::remove(all[i], error)) response->add_removed(all[i]);
    }
    spdlog::info("backed the store up to {}", path);
    return absl::OkStatus();
  };
  return AnswerOn(executors_.heavy, context, kStoreCap, back_up);
}

absl::StatusOr<std::string> RestoreStore(const std::string& backup) {
  ASSIGN_OR_RETURN(const std::string state_dir, DefaultStateDir());
  RETURN_IF_ERROR(MakePrivateDir(state_dir));
  return db::Store::Restore(backup, StorePath(state_dir));
}

}  // namespace tune::server
