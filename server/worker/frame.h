// SPDX-License-Identifier: Apache-2.0
// The framing of messages between the daemon and a worker: 4 bytes of length, little endian, then a
// protobuf. Neither end trusts the other: a length is checked before memory is allocated for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace google::protobuf {
class MessageLite;
}

namespace tune::server {

// Fits a binary of 32 MiB, the most that tunerd accepts, and its description.
inline constexpr uint32_t kFrameBytesMax = 40u << 20;
// Fits a request to judge a peer's outputs of up to 192 MiB.
inline constexpr uint32_t kRequestFrameBytesMax = 208u << 20;

// RESOURCE_EXHAUSTED if the message is longer than a frame may be.
absl::StatusOr<std::string> EncodeFrame(const google::protobuf::MessageLite& message,
                                        uint32_t bytes_max = kFrameBytesMax);

// Writes all of `bytes` and blocks until that is done. UNAVAILABLE if the other end is gone.
absl::Status WriteAll(int fd, std::string_view bytes);

// Collects one frame, however the socket cuts it into pieces, and never reads past its end.
// Not thread-safe.
class FrameReader {
 public:
  explicit FrameReader(uint32_t bytes_max = kFrameBytesMax) : bytes_max_(bytes_max) {}
  // Reads once. True once the frame is whole; false if more is to come, also if a non-blocking
  // socket has nothing. OUT_OF_RANGE: the other end closed. INVALID_ARGUMENT: longer than allowed.
  absl::StatusOr<bool> ReadFrom(int fd);
  // REQUIRES: ReadFrom returned true.
  const std::string& payload() const { return payload_; }

 private:
  const uint32_t bytes_max_;
  unsigned char header_[4] = {};
  size_t header_bytes_ = 0;
  uint32_t length_ = 0;
  std::string payload_;  // grows as bytes arrive: a length alone costs no memory
  size_t payload_bytes_ = 0;
};

}  // namespace tune::server
