// SPDX-License-Identifier: Apache-2.0
// Checks whether the write-ahead log is whole. SQLite reads a damaged log as far as it can and
// drops the rest silently, though its commits may have been acknowledged. The log's index also
// counts the commits and outlives a killed process, so that the two can be compared.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tune::db {

struct LogState {
  uint64_t frames = 0;      // readable ones, up to the last commit
  uint64_t committed = 0;   // as the index has it, or as later frames show; `frames` if unknown
  uint64_t backfilled = 0;  // of those committed, copied into the database file
  bool replayed = false;    // SQLite would read the log, as far as it can
  bool damaged() const { return frames < committed; }
};

// Reads the log of the database at `path`, which no process may have open. All zero without a log.
// UNAVAILABLE if it cannot be read.
absl::StatusOr<LogState> ReadLog(const std::string& path);

// DATA_LOSS with what to do, if acknowledged commits are in a damaged part of the log.
absl::Status CheckLog(const std::string& path);

// Puts a copy of a damaged log aside and leaves what is consistent: the readable part, or nothing
// if the database file is newer than that. Returns a sentence about it, empty if it was whole.
absl::StatusOr<std::string> DropDamagedLog(const std::string& path, int64_t now_unix_ms);

}  // namespace tune::db
