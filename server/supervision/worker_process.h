// SPDX-License-Identifier: Apache-2.0
// A worker process, seen from the daemon: starts it, sends it requests with a deadline, kills and
// reaps it. The deadline is enforced here; the worker is never trusted to stop by itself.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "base/child_process.h"
#include "base/descriptor.h"
#include "server/supervision/control_groups.h"
#include "tune/worker/v1/worker.pb.h"

namespace tune::server {

// The limits of a worker during a request, checked every 50 ms. A worker beyond one is killed. 0
// and empty: no limit.
struct WorkerLimits {
  // Resident memory of all its processes; all memory of its control group instead, if it has one.
  int64_t resident_bytes = 0;
  int processes = 0;
  int threads = 0;          // of all its processes; with a limit of processes alone
  std::string scratch_dir;  // what may be written to
  int64_t scratch_bytes = 0;
  // The free space that must remain on that folder's file system, whichever process took the rest:
  // a worker at work when there is less is killed. If less than twice as much was free at the start
  // of the request, the limit is half of what was free.
  int64_t free_disk_bytes = 0;
};

struct WorkerCommand {
  std::string program;  // path
  std::vector<std::string> args;
  std::vector<std::string> environment;  // "NAME=value", added to what a worker inherits
  WorkerLimits limits;
  ControlGroups* groups = nullptr;  // the worker gets one of its own; null: it is watched
};

// The path of a worker's program: in `dir` if that is not empty, else beside the running
// executable, else in ../libexec of it. NOT_FOUND lists the places searched.
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

// Stops a worker's processes for a while and lets them go on, without a loss of what they did.
struct WorkerRests {
  std::function<bool()> wanted;              // asked every 20 ms
  std::function<void(bool resting)> notify;  // called after each change
};

// Not thread-safe. The process leads a process group of its own; all of it ends with this object.
class WorkerProcess {
 public:
  // UNAVAILABLE if the program cannot be started.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const WorkerCommand& command);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Sends a request with a random nonce and waits for the reply with the same nonce. After anything
  // but kReplied the process is gone; after kCancelled it is killed and may still be ending, so
  // that a caller that gave up does not wait for a driver. Kill and the destructor wait. The time
  // of its rests does not count for `limit`.
  WorkerAnswer Call(worker::v1::WorkerRequest request, absl::Duration limit,
                    const Cancelled& cancelled, const WorkerRests& rests = {});

  bool alive() const { return state_ == State::kAlive; }
  pid_t pid() const { return child_.pid(); }
  // Its memory now, 0 if unknown.
  int64_t ResidentBytes() const;
  // Includes the processes that it has started.
  int64_t ResidentBytesOfAll() const;
  // From now on its memory may grow by so much. Returns the limit.
  int64_t LimitGrowth(int64_t bytes);
  // Why its disk has less than WorkerLimits::free_disk_bytes left, or hardly room for a file;
  // empty: it has more.
  std::string WhyDiskShort() const;
  // Why hardly anything is left of it; empty: there is more.
  std::string WhyDiskFull() const;
  // Sends SIGKILL to its process group, unless it was killed before, then waits until it is gone.
  // Returns false if it still exists after 5 s (a driver call that cannot be interrupted). A later
  // call only reports whether it is gone.
  bool Kill();
  // Whether the process has ended. Never waits.
  bool Gone();
  // Ends it and returns the end of its stderr, such as where a GPU's assertion failed.
  std::string KillAndHear();

 private:
  WorkerProcess(ChildProcess child, Descriptor socket, Descriptor words, WorkerLimits limits,
                std::unique_ptr<ControlGroup> group);
  enum class Ready { kReply, kNothing, kClosed, kBroken };
  Ready Exchange(std::string_view& unsent, class FrameReader& reader, int wait_ms);
  bool HasSpokenUnasked() const;
  // Returns whether it rests, and moves the deadline by the time of a rest that ends.
  bool Rest(const WorkerRests& rests, std::chrono::steady_clock::time_point& deadline);
  WorkerAnswer End(WorkerAnswer::Kind kind, const std::string& why);
  // The limit that it exceeds; empty if none.
  std::string Excess() const;
  // The largest integer if there is no folder or limit, or the file system counts no files.
  int64_t FreeDiskBytes() const;
  int64_t FreeFiles() const;
  // Why the disk has less than `bytes` free, or room for fewer than `files`; empty: it has more.
  std::string DiskShortOf(int64_t bytes, int64_t files) const;
  void Signal();
  void DrainStderr();
  std::string Words() const;

  const std::unique_ptr<ControlGroup> group_;  // may be null; removed after the process has ended
  ChildProcess child_;
  const Descriptor socket_;
  WorkerLimits limits_;
  Descriptor stderr_;  // closed once the worker has closed it
  enum class State { kAlive, kKilled, kGone };
  State state_ = State::kAlive;
  std::optional<std::chrono::steady_clock::time_point> rests_since_;
  bool waited_ = false;     // in vain, for its end
  int wait_status_ = 0;     // as waitpid gives it, once reaped
  std::string last_words_;  // the end of its stderr
};

}  // namespace tune::server
