// SPDX-License-Identifier: Apache-2.0
// Checks a worker's reply before it is parsed. A worker runs foreign code, which may write anything
// to the socket.
#pragma once

#include <cstdint>
#include <string>

#include "tune/worker/v1/worker.pb.h"

namespace tune::server {

// A message of empty messages takes two bytes for each of them here, and a hundred once parsed.
inline constexpr uint32_t kReplyBytesMax = 1u << 20;

// The longest frame that may answer `request`. A compiled variant comes with its binary and its
// log.
uint32_t ReplyFrameBytesMax(const worker::v1::WorkerRequest& request);

// False if the payload is no reply, or more than kReplyBytesMax of it are neither the binary nor
// the log of a compiled variant.
bool ParseReply(const std::string& payload, worker::v1::WorkerReply& reply);

}  // namespace tune::server
