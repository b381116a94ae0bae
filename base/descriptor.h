// SPDX-License-Identifier: Apache-2.0
// A file descriptor that closes itself, and writing all of a text to one.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/string_view.h"

namespace tune {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Descriptor() { Reset(); }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  // Leaves errno as it is, so that the error reported is the one that happened first.
  void Reset(int fd = -1) {
    const int error = errno;
    if (fd_ >= 0) close(fd_);
    errno = error;
    fd_ = fd;
  }

 private:
  int fd_;
};

// Writes all bytes, or returns false and leaves the error in errno.
inline bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace tune
