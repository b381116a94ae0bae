// SPDX-License-Identifier: Apache-2.0
// The few arguments that the daemon starts a worker with.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tune::server {

struct WorkerArguments {
  std::string scratch_dir;
  int ordinal = 0;
};

// Takes "--scratch DIR" and "--ordinal N".
absl::StatusOr<WorkerArguments> ParseWorkerArguments(int argc, char** argv);

// Makes the folder the place for temporary files, of this process and of those it starts.
void UseScratchDir(const std::string& dir);

}  // namespace tune::server
