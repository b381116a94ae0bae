// SPDX-License-Identifier: Apache-2.0
// Converts absl::Status to gRPC's status.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace tune::server {

// The codes have the same names and numbers. Payloads (server/rpc/error_detail.h) are transmitted.
// A message of more than 1 KiB is cut and ends with "...", and a longer payload is left out: gRPC
// resets a call whose trailing metadata is too large.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace tune::server
