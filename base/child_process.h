// SPDX-License-Identifier: Apache-2.0
// A program as a child that is not trusted to end, such as git: each exchange with it has a
// deadline and a bound.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace tune {

struct ChildCommand {
  std::string program;                   // looked for in the absolute folders of PATH
  std::vector<std::string> arguments;    // no shell reads them
  std::vector<std::string> environment;  // added to ours, of which GIT_* and PYTHON* are left out
  std::chrono::milliseconds timeout;     // of each wait for it
  std::string shown;                     // for people: "git rev-parse"
  std::string if_missing;                // what to do where there is no such program
  std::string if_late;                   // and where it takes too long
};

// Not thread-safe. Killed with its process group when destroyed.
class ChildProcess {
 public:
  // From the folder that we are in. INVALID_ARGUMENT: there is no such program.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildCommand& command);
  ~ChildProcess();

  // All that it prints, once it has ended well. INVALID_ARGUMENT with its own words if it fails,
  // DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED if it prints more.
  absl::StatusOr<std::string> ReadToEnd(size_t bytes_max);

  // A conversation: a request, and what it answers.
  absl::Status Write(const std::string& text);
  absl::StatusOr<std::string> ReadLine(size_t bytes_max);
  absl::StatusOr<std::string> ReadBytes(size_t count);

 private:
  using Time = std::chrono::steady_clock::time_point;

  explicit ChildProcess(const ChildCommand& command)
      : command_(command.shown), if_late_(command.if_late), timeout_(command.timeout) {}
  // Appends what comes first to `output_` and `errors_`; false when both have ended.
  absl::StatusOr<bool> ReadSome(Time deadline);
  absl::Status Exited(Time deadline);
  absl::Status Late() const;
  void Kill();

  const std::string command_;  // for people
  const std::string if_late_;
  const std::chrono::milliseconds timeout_;
  pid_t pid_ = -1;
  Descriptor in_, out_, err_;  // our ends
  std::string output_;         // read and not yet given out
  std::string errors_;         // the first 4 KiB
};

}  // namespace tune
