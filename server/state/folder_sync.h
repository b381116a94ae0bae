// SPDX-License-Identifier: Apache-2.0
// Makes names durable. A file that was written, synced and renamed is whole after a loss of power,
// but its folder may still have the old name, or none: the folder is a file of its own, which must
// be synced too.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace tune::server {

// Syncs the folder of a path, after a file got that name. Returns 0 or an error number. A file
// system that cannot sync folders is not an error.
inline int SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace tune::server
