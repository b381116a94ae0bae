// SPDX-License-Identifier: Apache-2.0
#include "server/worker/frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "google/protobuf/message_lite.h"

namespace tune::server {
namespace {

constexpr size_t kReadBytes = 1 << 20;

}  // namespace

absl::StatusOr<std::string> EncodeFrame(const google::protobuf::MessageLite& message,
                                        uint32_t bytes_max) {
  const size_t length = message.ByteSizeLong();
  if (length > bytes_max) {
    return absl::ResourceExhaustedError(absl::StrCat("a message of ", length,
                                                     " bytes is longer than the ", bytes_max,
                                                     " allowed between daemon and worker"));
  }
  std::string frame(4 + length, '\0');
  for (int i = 0; i < 4; ++i) frame[i] = static_cast<char>(length >> (8 * i));
  if (!message.SerializeToArray(frame.data() + 4, static_cast<int>(length))) {
    return absl::InternalError("a message to or from a worker could not be serialised");
  }
  return frame;
}

absl::Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) continue;
      return absl::UnavailableError(absl::StrCat("send: ", strerror(errno)));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FrameReader::ReadFrom(int fd) {
  const bool in_header = header_bytes_ < sizeof(header_);
  char* target = reinterpret_cast<char*>(header_) + header_bytes_;
  size_t wanted = sizeof(header_) - header_bytes_;
  if (!in_header) {
    wanted = std::min(kReadBytes, length_ - payload_bytes_);
    if (payload_.size() < payload_bytes_ + wanted) payload_.resize(payload_bytes_ + wanted);
    target = payload_.data() + payload_bytes_;
  }
  const ssize_t got = read(fd, target, wanted);
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN) return false;
    return absl::OutOfRangeError(absl::StrCat("read: ", strerror(errno)));
  }
  if (got == 0) return absl::OutOfRangeError("the other end closed");
  if (!in_header) {
    payload_bytes_ += static_cast<size_t>(got);
    if (payload_bytes_ < length_) return false;
    payload_.resize(payload_bytes_);
    return true;
  }
  header_bytes_ += static_cast<size_t>(got);
  if (header_bytes_ < sizeof(header_)) return false;
  for (int i = 0; i < 4; ++i) length_ |= static_cast<uint32_t>(header_[i]) << (8 * i);
  if (length_ > bytes_max_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame of ", length_, " bytes; ", bytes_max_, " are allowed"));
  }
  return length_ == 0;
}

}  // namespace tune::server
