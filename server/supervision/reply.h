// SPDX-License-Identifier: Apache-2.0
// What a worker sent, before it is taken apart: a worker runs foreign code, and that code may write
// to the socket whatever it likes.
#pragma once

#include <cstdint>
#include <string>

#include "tune/worker/v1/worker.pb.h"

namespace tune::server {

// A message of empty messages is two bytes for each of them here, and a hundred once it is parsed.
inline constexpr uint32_t kReplyBytesMax = 1u << 20;

// The longest frame that may answer this. A compiled variant comes with its binary and its log.
uint32_t ReplyFrameBytesMax(const worker::v1::WorkerRequest& request);

// False if the payload is no reply, or more than kReplyBytesMax of it are neither the binary nor
// the log of a compiled variant.
bool ParseReply(const std::string& payload, worker::v1::WorkerReply& reply);

}  // namespace tune::server
