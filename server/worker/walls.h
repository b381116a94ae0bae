// SPDX-License-Identifier: Apache-2.0
// The walls around a worker process, put up by the worker itself before it touches anything that
// it was sent: limits of the process, files (Landlock), system calls (seccomp). Which walls a role
// has is said in walls.cc and call_filter.cc and nowhere else. None needs privileges: root, a plain
// user and an unprivileged container get the same ones. docs/walls.md tells what each is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/worker/worker_role.h"
#include "tuner/device/compiler.h"

namespace tune::server {

// Limits of the process; 0: none. One that loads a GPU's driver reserves more address space than
// any sane limit: the daemon watches what it holds instead (WorkerLimits of worker_process.h).
struct WallLimits {
  int64_t address_space_bytes = 0;
  int64_t file_bytes = 0;  // of each file that it writes
  int64_t open_files = 0;
};

class Walls {
 public:
  // `scratch_dir`: the only folder that may be written to; a kHostDevice may write to none.
  Walls(WorkerRole role, std::string scratch_dir);

  // What can be read besides, and for a kInterpreter the programs that can be run. Call it before
  // EncloseProcess.
  void Admit(const CompilerFiles& files);

  // The process ends with the daemon, has no privileges, and keeps to its limits and its files.
  // Libraries that are loaded by then can still be read. Threads that run already are not kept from
  // files: call it before starting those that will run foreign code.
  void EncloseProcess();
  // Restricts the system calls of every thread. The last wall: a kHostDevice can start no thread
  // afterwards.
  void EncloseCalls();

  WorkerRole role() const { return role_; }
  const std::string& scratch_dir() const { return scratch_dir_; }
  // As they were when this was made: behind the walls a process cannot see what it may use.
  const WallLimits& limits() const { return limits_; }
  int landlock() const { return landlock_; }  // its version; 0: none
  // What could not be put up; empty: everything was. Whether it holds is what TryWalls finds out.
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
