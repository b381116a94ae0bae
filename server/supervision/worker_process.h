// SPDX-License-Identifier: Apache-2.0
// One worker process, seen from the daemon: started, asked with a deadline, killed, reaped. The
// deadline is kept here; the worker is never trusted to stop by itself.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "tune/worker/v1/worker.pb.h"

namespace tune::server {

// What a worker may use while it is asked something; beyond it, it is killed. 0 and empty: as much
// as it likes. Looked at every 50 ms.
struct WorkerLimits {
  int64_t resident_bytes = 0;  // of all its processes
  int processes = 0;
  int threads = 0;          // of all its processes; with a limit of processes alone
  std::string scratch_dir;  // what may be written to
  int64_t scratch_bytes = 0;
  // Of the file system of that folder, whoever has taken the rest: a worker that is at work when
  // there is less is ended. Where there was less than twice as much before, half of what there was.
  int64_t free_disk_bytes = 0;
};

struct WorkerCommand {
  std::string program;  // path
  std::vector<std::string> args;
  std::vector<std::string> environment;  // "NAME=value", added to what a worker inherits
  WorkerLimits limits;
};

// The path of a worker's program: in `dir` if that is not empty, else beside the running
// executable, else in ../libexec of it. NOT_FOUND says where it looked.
absl::StatusOr<std::string> FindWorker(const std::string& name, const std::string& dir);

struct WorkerAnswer {
  enum class Kind {
    kReplied,
    kDied,       // exit or signal
    kDeadline,   // killed at the deadline
    kProtocol,   // what it sent is no reply to this request; killed
    kCancelled,  // killed because the caller no longer wants the answer; it may still be ending
    kExceeded,   // killed because it used more than its limits
    kHostShort,  // killed because the disk is nearly full, which another may have done
  };
  Kind kind = Kind::kDied;
  worker::v1::WorkerReply reply;  // kReplied only
  std::string message;  // what happened, with the worker's last words; empty if it replied
};

// Not thread-safe. The process leads a process group of its own; all of it ends with this object.
class WorkerProcess {
 public:
  // UNAVAILABLE if the program cannot be started.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const WorkerCommand& command);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Sends a request with a random nonce and waits for the reply that has the same. After anything
  // but kReplied the process is gone, or, after kCancelled, killed: a caller that gave up is not
  // kept waiting for a driver to let go of it. Kill and the destructor wait.
  WorkerAnswer Call(worker::v1::WorkerRequest request, absl::Duration limit,
                    const Cancelled& cancelled);

  bool alive() const { return state_ == State::kAlive; }
  pid_t pid() const { return pid_; }
  // Memory it holds now, 0 if unknown.
  int64_t ResidentBytes() const;
  // With that of the processes it has started.
  int64_t ResidentBytesOfAll() const;
  // Another limit from now on.
  void LimitResidentBytes(int64_t bytes) { limits_.resident_bytes = bytes; }
  // SIGKILL to its process group, unless it was killed before, then waits until it is gone. False
  // if the kernel has not let go of it after 5 s (a driver call that cannot be interrupted); again:
  // whether it has now.
  bool Kill();
  // Is it over? Never waits.
  bool Gone();
  // Ends it; the end of what it wrote to its stderr, such as where a GPU's assertion failed.
  std::string KillAndHear();

 private:
  WorkerProcess(pid_t pid, int pid_fd, int socket_fd, int stderr_fd, WorkerLimits limits);
  enum class Ready { kReply, kNothing, kClosed, kBroken };
  Ready Exchange(std::string_view& unsent, class FrameReader& reader, int wait_ms);
  bool HasSpokenUnasked() const;
  WorkerAnswer End(WorkerAnswer::Kind kind, const std::string& why);
  // Which limit it is beyond; empty: none.
  std::string Excess() const;
  int64_t FreeDiskBytes() const;  // as much as anybody wants where there is no folder or limit
  void Signal();
  void DrainStderr();
  std::string Words() const;

  const pid_t pid_;
  const int pid_fd_;
  const int socket_fd_;
  WorkerLimits limits_;
  int stderr_fd_;  // -1 once the worker closed it
  enum class State { kAlive, kKilled, kGone };
  State state_ = State::kAlive;
  bool waited_ = false;     // in vain, for its end
  int wait_status_ = 0;     // as waitpid gives it, once reaped
  std::string last_words_;  // the end of its stderr
};

}  // namespace tune::server
