// SPDX-License-Identifier: Apache-2.0
// Which files a worker may reach, by Landlock at the newest version that the kernel has. From
// version 4 on it also bars TCP, from 6 on signals to processes outside and abstract sockets.
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

// For this thread and those that it starts from now on; whatever is on no list cannot be opened.
// A path that does not exist is passed over. Gives Landlock's version. UNAVAILABLE: the kernel has
// no Landlock, or a container's policy keeps it from us.
absl::StatusOr<int> RestrictFiles(const FileRules& rules);

}  // namespace tune::server
