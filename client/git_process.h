// SPDX-License-Identifier: Apache-2.0
// git as a child that is not trusted to end: each exchange with it has a deadline and a bound.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/descriptor.h"

namespace tune::client {

// Not thread-safe. Killed with its process group when destroyed.
class GitProcess {
 public:
  // `git ARGUMENTS`, without a shell, from the folder that we are in. The caller's GIT_* variables
  // are left out, `environment` is added. Each wait for it lasts `timeout` at most.
  // INVALID_ARGUMENT: no git in an absolute folder of PATH.
  static absl::StatusOr<std::unique_ptr<GitProcess>> Start(
      const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
      std::chrono::milliseconds timeout);
  ~GitProcess();

  // All that it prints, once it has ended well. INVALID_ARGUMENT with git's own words if it fails,
  // DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED if it prints more.
  absl::StatusOr<std::string> ReadToEnd(size_t bytes_max);

  // A conversation: a request, and what it answers.
  absl::Status Write(const std::string& text);
  absl::StatusOr<std::string> ReadLine(size_t bytes_max);
  absl::StatusOr<std::string> ReadBytes(size_t count);

 private:
  using Time = std::chrono::steady_clock::time_point;

  GitProcess(std::string command, std::chrono::milliseconds timeout)
      : command_(std::move(command)), timeout_(timeout) {}
  // Appends what comes first to `output_` and `errors_`; false when both have ended.
  absl::StatusOr<bool> ReadSome(Time deadline);
  absl::Status Exited(Time deadline);
  absl::Status Late() const;
  void Kill();

  const std::string command_;  // for people
  const std::chrono::milliseconds timeout_;
  pid_t pid_ = -1;
  Descriptor in_, out_, err_;  // our ends
  std::string output_;         // read and not yet given out
  std::string errors_;         // the first 4 KiB
};

}  // namespace tune::client
