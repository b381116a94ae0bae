// SPDX-License-Identifier: Apache-2.0
// The arguments with which the daemon starts a worker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::server {

struct WorkerArguments {
  std::string scratch_dir;
  int ordinal = 0;
  // The largest binary and log with which a compile worker may answer.
  int64_t binary_bytes_max = int64_t{16} << 20;
  int64_t log_bytes_max = int64_t{64} << 10;
  std::vector<std::string> include_roots;  // NAME=DIR
};

// Takes "--scratch DIR", "--ordinal N", "--binary-bytes N", "--log-bytes N" and, any number of
// times, "--include-root NAME=DIR".
absl::StatusOr<WorkerArguments> ParseWorkerArguments(int argc, char** argv);

// Makes the folder the place for temporary files, of this process and of those it starts.
void UseScratchDir(const std::string& dir);

}  // namespace tune::server
