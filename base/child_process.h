// SPDX-License-Identifier: Apache-2.0
// Runs a program such as git as a child process that may hang or print without end: each exchange
// with the child has a deadline and a size limit.
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

// A running child. Not thread-safe. The destructor kills the child and its process group.
class ChildProcess {
 public:
  // Starts the program in the current folder. INVALID_ARGUMENT if there is no such program.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildCommand& command);
  ~ChildProcess();

  // Returns all output once the child has exited with 0. INVALID_ARGUMENT with the child's error
  // output if it fails, DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED if it prints more.
  absl::StatusOr<std::string> ReadToEnd(size_t bytes_max);

  // A conversation: writes a request, and reads the answer.
  absl::Status Write(const std::string& text);
  absl::StatusOr<std::string> ReadLine(size_t bytes_max);
  absl::StatusOr<std::string> ReadBytes(size_t count);

 private:
  using Time = std::chrono::steady_clock::time_point;

  explicit ChildProcess(const ChildCommand& command)
      : command_(command.shown), if_late_(command.if_late), timeout_(command.timeout) {}
  // Appends the next piece of either stream to `output_` or `errors_`; false once both have ended.
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
