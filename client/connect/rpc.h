// SPDX-License-Identifier: Apache-2.0
// gRPC's status and deadlines in absl's terms.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "grpcpp/grpcpp.h"
#include "tune/v1/error.pb.h"

namespace tune::client {

// The seventeen codes have equal values in both. What the daemon tells programs comes along as a
// payload; DetailOf reads it.
inline absl::Status FromGrpc(const grpc::Status& from) {
  absl::Status status(static_cast<absl::StatusCode>(from.error_code()), from.error_message());
  v1::ErrorStatus details;
  if (from.error_details().empty() || !details.ParseFromString(from.error_details())) return status;
  for (const auto& detail : details.details()) {
    status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return status;
}

// The detail of an error; nullopt if it is no error of the daemon's own, or no program can act on
// it.
inline std::optional<v1::ErrorDetail> DetailOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  const auto payload = status.GetPayload("type.googleapis.com/tune.v1.ErrorDetail");
  if (!payload || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

inline void SetDeadline(grpc::ClientContext& context, std::chrono::milliseconds timeout) {
  context.set_deadline(std::chrono::system_clock::now() + timeout);
}

}  // namespace tune::client
