// SPDX-License-Identifier: Apache-2.0
// Restricts the files that a worker may reach, by Landlock at the newest version that the kernel
// has. From version 4 on it also blocks TCP, from 6 on signals to other processes and abstract
// sockets.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::server {

struct FileRules {
  std::vector<std::string> readable;  // folders and files; may be run, too, if `run_readable`
  std::vector<std::string> writable;  // folders in which files may be made, changed and removed
  std::vector<std::string> devices;   // device files: read, written, controlled by ioctl
  std::vector<std::string> programs;  // files that may be read and run
  bool run_readable = true;           // likewise what is readable or writable
};

// Applies to this thread and those that it starts from now on; a file on no list cannot be opened.
// Skips a path that does not exist. Returns Landlock's version. UNAVAILABLE if the kernel has no
// Landlock, or a container's policy hides it.
absl::StatusOr<int> RestrictFiles(const FileRules& rules);

}  // namespace tune::server
