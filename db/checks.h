// SPDX-License-Identifier: Apache-2.0
// Checks before a database file is used: a local file system, no other process, no damage.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "db/sqlite_connection.h"

namespace tune::db {

// "NFS", "Lustre", ...; null for a file system with trustworthy locks. `type` is statfs's f_type.
const char* NetworkFileSystemName(uint64_t type);

// FAILED_PRECONDITION if the directory of `path` is on a network file system, where SQLite's locks
// and shared memory cannot be relied on. The environment's TUNE_ALLOW_NETWORK_FS=1 overrides.
absl::Status CheckFileSystem(const std::string& path);

// An exclusive lock on `<path>.lock`, which holds this process's id. The operating system drops it
// when the process ends, however it ends.
class FileLock {
 public:
  // FAILED_PRECONDITION names the process that has it.
  static absl::StatusOr<std::unique_ptr<FileLock>> Take(const std::string& path);
  // The holder of the lock: "tunectl (process 17)"; empty if there is none. Takes no lock itself,
  // so that a process that wants the lock meanwhile gets it.
  static std::string Holder(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

// DATA_LOSS with SQLite's first finding if the file is damaged; CANCELLED.
absl::Status QuickCheck(SqliteConnection& connection, const std::string& path,
                        const Cancelled& cancelled = {});

}  // namespace tune::db
