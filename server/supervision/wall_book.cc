// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/wall_book.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/supervision/host_short.h"

namespace tune::server {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);
constexpr int64_t kGrowthBytes = int64_t{16} << 20;

std::string NameOf(const std::string& program) {
  return std::filesystem::path(program).filename().string();
}

// Has the worker take more memory than it may, which must end it. CANCELLED.
absl::Status TryMemory(WorkerProcess& worker, const Cancelled& cancelled, v1::Wall& wall) {
  wall.set_name("memory");
  worker::v1::WorkerRequest request;
  // Beyond the limit even if all that it has now can be given up, such as its cache of files.
  request.mutable_try_walls()->set_memory_bytes(worker.LimitGrowth(kGrowthBytes) + kGrowthBytes);
  const WorkerAnswer answer = worker.Call(request, kDeadline, cancelled);
  if (answer.kind == WorkerAnswer::Kind::kCancelled) return absl::CancelledError("cancelled");
  if (answer.kind == WorkerAnswer::Kind::kHostShort) return HostShortError(answer.message);
  wall.set_state(v1::WALL_STATE_STANDS);
  if (answer.kind == WorkerAnswer::Kind::kExceeded) return absl::OkStatus();
  wall.set_state(v1::WALL_STATE_MISSING);
  wall.set_note(answer.kind == WorkerAnswer::Kind::kReplied
                    ? "it could use more memory than its limit"
                    : absl::StrCat("its limit could not be tried: ", answer.message));
  return absl::OkStatus();
}

}  // namespace

std::string MissingWalls(const v1::WorkerWalls& walls) {
  std::string missing = walls.error();
  for (const v1::Wall& wall : walls.walls()) {
    if (wall.state() != v1::WALL_STATE_MISSING) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : "; ", wall.name(), ": ", wall.note());
  }
  return missing;
}

WallBook::WallBook(std::string folder, bool weak_allowed)
    : planted_(std::move(folder) + "/planted"), weak_allowed_(weak_allowed) {}

bool WallBook::Knows(const std::string& program) const {
  MutexLock lock(mutex_);
  return walls_.contains(program);
}

absl::Status WallBook::Try(const std::string& program, WorkerProcess& worker,
                           const Cancelled& cancelled) {
  worker::v1::WorkerRequest request;
  request.mutable_try_walls()->set_planted_file(planted_);
  request.mutable_try_walls()->set_daemon_pid(getpid());
  v1::WorkerWalls walls;
  {
    // A worker that is not kept from the file may remove it.
    MutexLock trial(trial_mutex_);
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(planted_).parent_path(), ignored);
    std::ofstream(planted_) << "planted\n";
    WorkerAnswer answer = worker.Call(request, kDeadline, cancelled);
    if (answer.kind == WorkerAnswer::Kind::kCancelled) return absl::CancelledError("cancelled");
    if (answer.kind == WorkerAnswer::Kind::kHostShort) return HostShortError(answer.message);
    if (answer.kind == WorkerAnswer::Kind::kReplied && answer.reply.has_walls()) {
      walls = std::move(*answer.reply.mutable_walls());
      RETURN_IF_ERROR(TryMemory(worker, cancelled, *walls.add_walls()));
    } else {
      walls.set_error(absl::StrCat("its walls could not be tried: ", answer.message,
                                   answer.reply.status_message()));
    }
  }
  worker.Kill();
  walls.set_worker(NameOf(program));
  MutexLock lock(mutex_);
  walls_[program] = std::move(walls);
  return absl::OkStatus();
}

absl::Status WallBook::Permit(const std::string& program, const std::string& said_missing) const {
  if (weak_allowed_) return absl::OkStatus();
  MutexLock lock(mutex_);
  auto it = walls_.find(program);
  std::string missing = it == walls_.end() ? "not tried" : MissingWalls(it->second);
  if (!said_missing.empty()) {
    absl::StrAppend(&missing, missing.empty() ? "" : "; ", "the worker says: ", said_missing);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "walls around ", NameOf(program), " are missing (", missing,
      "), so no kernel runs in it; docs/walls.md says what the host needs. For kernels "
      "that you trust, start tunerd with --allow-weak-walls"));
}

std::optional<v1::WorkerWalls> WallBook::Of(const std::string& program) const {
  MutexLock lock(mutex_);
  auto it = walls_.find(program);
  if (it == walls_.end()) return std::nullopt;
  return it->second;
}

std::vector<v1::WorkerWalls> WallBook::All() const {
  MutexLock lock(mutex_);
  std::vector<v1::WorkerWalls> all;
  for (const auto& [program, walls] : walls_) all.push_back(walls);
  return all;
}

}  // namespace tune::server
