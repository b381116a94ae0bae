// SPDX-License-Identifier: Apache-2.0
// Control groups of workers (cgroup v2), by which the kernel counts and limits all memory of a
// worker: also memory that is in no resident set, such as files in memory. They need a host that
// delegates its group to the daemon: a container whose /sys/fs/cgroup can be written to, or a
// systemd unit with Delegate=yes. Without them the daemon watches the workers' resident sets
// instead (WorkerLimits).
//
// A group whose children have limits may hold no process itself, so the daemon moves to a leaf
// beside the workers' groups:
//
//   the daemon's group          which the host delegated
//   |-- tune-daemon             the daemon
//   |-- tune-worker-1           one worker and what it starts
//   `-- tune-worker-2
//
// WorkerProcess makes a group for each worker, which joins it before it does anything else
// (JoinControlGroup of serve.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace tune::server {

// The group of one worker. Not thread-safe.
class ControlGroup {
 public:
  // Kills the processes that are left in it, and removes it.
  ~ControlGroup();
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  // A file to which a process writes "0" to join the group.
  absl::StatusOr<Descriptor> Entry() const;
  absl::Status LimitMemory(int64_t bytes);
  // The memory that is charged to the group now, 0 if unknown.
  int64_t MemoryBytes() const;
  // Whether the group has reached its limit of memory, which ends all its processes.
  bool HasRunOutOfMemory() const;
  // Ends every process in it, also those that have left the worker's process group.
  void Kill();

 private:
  friend class ControlGroups;
  explicit ControlGroup(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
};

// The group that the host delegated to this process. Thread-safe; outlives the groups it makes.
class ControlGroups {
 public:
  // Takes over this process's group, removes the workers' groups that a killed daemon left there,
  // and moves this process to a leaf. UNAVAILABLE if the group is not this process's own or lacks a
  // controller, with the reason; nothing has changed then. `root` is put before each path that is
  // used.
  static absl::StatusOr<std::unique_ptr<ControlGroups>> Claim(const std::string& root = "");
  // Moves this process back.
  ~ControlGroups();
  ControlGroups(const ControlGroups&) = delete;
  ControlGroups& operator=(const ControlGroups&) = delete;

  // A new group for a worker with these limits; 0: no limit. `tasks`: threads of all its processes.
  absl::StatusOr<std::unique_ptr<ControlGroup>> Make(int64_t memory_bytes, int tasks);

 private:
  explicit ControlGroups(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
  std::atomic<int> made_ = 0;
};

}  // namespace tune::server
