// SPDX-License-Identifier: Apache-2.0
// Converts absl::Status to gRPC's status.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "grpcpp/support/status.h"
#include "server/wire/utf8.h"
#include "tune/v1/error.pb.h"

namespace tune::server {

// The codes have the same names and numbers. Payloads (server/rpc/error_detail.h) are transmitted.
inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::ErrorStatus details;
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    details.add_details()->set_type_url(std::string(type));
    details.mutable_details()->rbegin()->set_value(std::string(payload));
  });
  const std::string message(status.message());
  const auto code = static_cast<grpc::StatusCode>(status.code());
  if (details.details().empty()) return grpc::Status(code, message);
  details.set_code(code);
  details.set_message(Utf8(message));
  return grpc::Status(code, message, details.SerializeAsString());
}

}  // namespace tune::server
