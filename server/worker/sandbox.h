// SPDX-License-Identifier: Apache-2.0
// Walls around a worker process, put up by the worker itself before it touches anything it was
// sent. They limit what a hostile source can do to the host; they are not a tenant boundary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tune::server {

struct Sandbox {
  // The only folder that may be written; empty: no Landlock, the file system stays as it is.
  std::string scratch_dir;
  // Further folders that may be read and executed from, besides the system's own.
  std::vector<std::string> read_dirs;
  // No network and none of the system calls that reach into other processes or deep into the
  // kernel.
  bool filter_calls = false;
  bool allow_exec = false;              // with filter_calls: a compiler that is a program needs it
  int64_t address_space_bytes_max = 0;  // 0: no limit. Not for a process that loads libcuda,
                                        // which reserves more than any sane limit.
  int64_t file_bytes_max = 0;           // 0: no limit
};

// No core files, no new privileges, then what the sandbox asks for. Best effort: returns what could
// not be done, empty if every wall stands. Threads that run already stay free of the restriction on
// files, so call it before starting those that will run foreign code.
std::string EnterSandbox(const Sandbox& sandbox);

// Folders of the libraries loaded into this process, and for NVRTC the toolkit around it: its
// builtins and headers lie beside it, wherever that is.
std::vector<std::string> LoadedLibraryDirs();

// Gives this process another `seconds` of CPU time from now; beyond it, SIGXCPU. Children start
// with a count of their own and the same limit.
void LimitCpuSeconds(int64_t seconds);

}  // namespace tune::server
