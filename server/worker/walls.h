// SPDX-License-Identifier: Apache-2.0
// The walls around a worker process, which the worker itself puts up before it touches anything
// that it was sent: limits of the process, files (Landlock), system calls (seccomp). Only walls.cc
// and call_filter.cc define which walls a role has. None needs privileges: root, a plain user and
// an unprivileged container get the same ones. docs/walls.md describes the purpose of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/worker/worker_role.h"
#include "tuner/device/compiler.h"

namespace tune::server {

// Limits of the process; 0: none. A process that loads a GPU's driver reserves more address space
// than any sane limit, so the daemon watches its memory instead (WorkerLimits of worker_process.h).
struct WallLimits {
  int64_t address_space_bytes = 0;
  int64_t file_bytes = 0;  // of each file that it writes
  int64_t open_files = 0;
};

class Walls {
 public:
  // `scratch_dir`: the only folder that may be written to; a kHostDevice may write to none.
  Walls(WorkerRole role, std::string scratch_dir);

  // Adds files that may be read, and for a kInterpreter programs that may be run. Call it before
  // EncloseProcess.
  void Admit(const CompilerFiles& files);

  // Ties the process's life to the daemon's, and restricts its privileges, its resources and its
  // files. Libraries loaded by then stay readable. Threads that already run are not restricted from
  // files, so call it before starting those that will run foreign code.
  void EncloseProcess();
  // Restricts the system calls of every thread. The last wall: a kHostDevice can start no thread
  // afterwards.
  void EncloseCalls();

  WorkerRole role() const { return role_; }
  const std::string& scratch_dir() const { return scratch_dir_; }
  // The limits when this object was made: behind the walls a process cannot see what it may use.
  const WallLimits& limits() const { return limits_; }
  int landlock() const { return landlock_; }  // its version; 0: none
  // The walls that could not be put up; empty if all were. TryWalls finds out whether they hold.
  const std::string& missing() const { return missing_; }

 private:
  void Note(const std::string& what);
  std::vector<std::string> ReadablePaths() const;

  const WorkerRole role_;
  const std::string scratch_dir_;
  const WallLimits limits_;
  CompilerFiles files_;
  int landlock_ = 0;
  std::string missing_;
};

// Gives this process another `seconds` of CPU time from now; beyond it, SIGXCPU. Children start
// with a count of their own and the same limit.
void LimitCpuSeconds(int64_t seconds);

}  // namespace tune::server
