// SPDX-License-Identifier: Apache-2.0
// The kind of work that a worker does, which determines its walls.
#pragma once

namespace tune::server {

enum class WorkerRole {
  kLibraryCompiler,  // compiles in this process: threads and files, no other processes
  kProgramCompiler,  // starts the system's compiler: processes too, none of which leaves its group
  kInterpreter,      // as that, but of programs it runs only those that it names
  kHostDevice,       // runs foreign code in this process: memory, clocks, the socket that is open
  kAccelerator,  // drives a GPU, whose kernels make no system calls: the driver's files, threads
  kCounter,      // as kAccelerator; reads hardware counters, which a driver may keep for root
  kUnwalled,     // plays workers that misbehave, in tests: the daemon refuses to use it
};

}  // namespace tune::server
