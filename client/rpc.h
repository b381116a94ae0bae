// SPDX-License-Identifier: Apache-2.0
// gRPC's status and deadlines in absl's terms.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"

namespace tune::client {

// The seventeen codes have equal values in both.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

inline void SetDeadline(grpc::ClientContext& context, std::chrono::milliseconds timeout) {
  context.set_deadline(std::chrono::system_clock::now() + timeout);
}

}  // namespace tune::client
