// SPDX-License-Identifier: Apache-2.0
// Asks a daemon for a snapshot or an artifact, or tells it of misses, by the program tune-fetch.
// The job's process never loads gRPC: it could not fork safely afterwards, and could not be sure to
// come back in time.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/child_process.h"
#include "client/libtune/environment.h"

namespace tune::library {

struct Order {
  const char* what = "snapshot";  // or "artifact", "misses"
  std::string digest;             // of a snapshot: empty for the newest
  std::string address;
  const Environment& environment;  // the program's
  Deadline deadline;
  size_t bytes_max = 0;
  std::string input = {};  // what the program reads: of misses, a RecordMissesRequest as JSON
  int end_fd = -1;         // where this can be read from, the asking is given up
};

// The file, or a line on each miss. UNAVAILABLE: there is none in time, with what went wrong.
absl::StatusOr<std::string> Fetch(const Order& order);

// The folder of this library: .../lib of an install, or empty.
std::string LibraryFolder();

}  // namespace tune::library
