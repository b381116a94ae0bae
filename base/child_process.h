// SPDX-License-Identifier: Apache-2.0
// Starts programs as child processes. A child has the standard files, the files that its command
// names and no other descriptor, an empty signal mask and the default signal actions.
//
// ChildProcess is the process alone: workers speak protocols of their own through files that their
// commands name. RunChild waits for a program that only prints. Conversation exchanges lines with
// one, such as git. Each of them kills its child when it is destroyed or its deadline passes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/descriptor.h"

namespace tune {

using Deadline = std::chrono::steady_clock::time_point;

struct ChildCommand {
  std::string program;                   // path; no shell reads it or the arguments
  std::vector<std::string> arguments;    // after the program's name
  std::vector<std::string> environment;  // "NAME=value"; all variables that the child gets
  std::string folder = {};               // working directory; empty: the caller's
  // Pairs of a descriptor of the caller and its number in the child, 0 to 9. The child reads
  // /dev/null if no pair sets its stdin, and shares the caller's stdout and stderr if none sets
  // those.
  std::vector<std::pair<int, int>> files = {};
  bool leads_group = false;  // starts a process group, which is killed as a whole
};

// This process's environment without the variables that start with one of the prefixes, and then
// `added`.
std::vector<std::string> EnvironmentWithout(const std::vector<absl::string_view>& prefixes,
                                            std::vector<std::string> added);

// A copy that is closed on exec and has a number that no child's file has (10 or more), so that it
// can become any of those.
Descriptor CopyAboveChildFiles(int fd);

// Both ends are such copies.
struct Pipe {
  absl::Status Open();

  Descriptor read_end;
  Descriptor write_end;
};

// Not thread-safe.
class ChildProcess {
 public:
  // UNAVAILABLE if the program cannot be started.
  static absl::StatusOr<ChildProcess> Start(const ChildCommand& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ~ChildProcess();  // kills the child and waits up to 2 s for its end

  pid_t pid() const { return pid_; }
  // A pidfd, which is readable once the child has ended; -1 if the kernel refuses to open one.
  int pid_fd() const { return pid_fd_.get(); }
  // Sends SIGKILL to the child, and to its group if it leads one. Does not wait.
  void Signal();
  // Reaps the child. Returns its status as waitpid does, or 0 if another part of this process has
  // reaped it. Returns nullopt if the child has not ended by the deadline, or once `end_fd` can be
  // read.
  std::optional<int> Wait(Deadline deadline = Deadline::max(), int end_fd = -1);

 private:
  ChildProcess(pid_t pid, bool leads_group);

  pid_t pid_;  // -1 once moved from
  bool leads_group_;
  Descriptor pid_fd_;
  std::optional<int> status_;  // once reaped
};

// 128 + the signal's number if a signal ended the process.
int ExitCodeOf(int wait_status);

struct ChildBounds {
  Deadline deadline = Deadline::max();
  size_t output_max = 64 << 10;  // bytes; further output is read and discarded,
  bool kills_at_max = false;     // or is RESOURCE_EXHAUSTED at once
  size_t errors_max = 4096;
  int end_fd = -1;  // gives up once this can be read
};

struct ChildResult {
  int exit_code = 0;
  std::string output;
  std::string errors;
};

enum class ChildErrors { kApart, kInOutput, kInherited };  // where its stderr goes

// Runs a program to its end. UNAVAILABLE if it cannot be started, DEADLINE_EXCEEDED if it does not
// end in time or the caller gave up, RESOURCE_EXHAUSTED as `bounds` says.
absl::StatusOr<ChildResult> RunChild(ChildCommand command, ChildErrors errors,
                                     const ChildBounds& bounds);

struct ConversationCommand {
  std::string program;                   // looked for in the absolute folders of PATH
  std::vector<std::string> arguments;    // no shell reads them
  std::vector<std::string> environment;  // added to ours, of which GIT_* and PYTHON* are left out
  std::chrono::milliseconds timeout;     // of each wait for it
  std::string shown;                     // for people: "git rev-parse"
  std::string if_missing;                // what to do where there is no such program
  std::string if_late;                   // and where it takes too long
};

// A program such as git that may hang or print without end: each exchange with it has a deadline
// and a size limit. It may take 2 GiB of memory and writes no files. Not thread-safe.
class Conversation {
 public:
  // Starts the program in the current folder. INVALID_ARGUMENT if there is no such program.
  static absl::StatusOr<std::unique_ptr<Conversation>> Start(const ConversationCommand& command);

  // Returns all output once the child has exited with 0. INVALID_ARGUMENT with the child's error
  // output if it fails, DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED if it prints more.
  absl::StatusOr<std::string> ReadToEnd(size_t bytes_max);

  // Writes a request, and reads the answer.
  absl::Status Write(const std::string& text);
  absl::StatusOr<std::string> ReadLine(size_t bytes_max);
  absl::StatusOr<std::string> ReadBytes(size_t count);

 private:
  Conversation(const ConversationCommand& command, ChildProcess child)
      : command_(command), child_(std::move(child)) {}
  // Reads until `done` is true of the output. Not OK if the child ends or is late before.
  absl::Status ReadUntil(const std::function<bool()>& done);
  absl::Status End(Deadline deadline);
  absl::Status Late() const;
  std::string TakeOutput(size_t bytes);

  const ConversationCommand command_;
  ChildProcess child_;
  Descriptor in_, out_, err_;  // our ends
  std::string output_;         // read and not yet returned
  std::string errors_;         // the first 4 KiB
};

}  // namespace tune
