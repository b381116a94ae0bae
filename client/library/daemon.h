// SPDX-License-Identifier: Apache-2.0
// Asks a daemon for a snapshot or an artifact, by the program tune-fetch. The job's process never
// loads gRPC: it could not fork safely afterwards, and could not be sure to come back in time.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace tune::library {

using Deadline = std::chrono::steady_clock::time_point;

struct Order {
  const char* what = "snapshot";  // or "artifact"
  std::string digest;             // of a snapshot: empty for the newest
  std::string address;
  Deadline deadline;
  size_t bytes_max = 0;
};

// The file. UNAVAILABLE: there is none in time, with what went wrong.
absl::StatusOr<std::string> Fetch(const Order& order);

// Where this library lies: .../lib of an install, or empty.
std::string LibraryFolder();

}  // namespace tune::library
