// SPDX-License-Identifier: Apache-2.0
// Error details on which a client can act, attached to a status where the error occurs. ToGrpc
// transmits them.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "tune/v1/error.pb.h"

namespace tune::server {

// The status with the detail as its payload. An ok status stays as it is.
absl::Status WithDetail(absl::Status status, const v1::ErrorDetail& detail);
inline absl::Status WithReason(absl::Status status, v1::ErrorReason reason) {
  v1::ErrorDetail detail;
  detail.set_reason(reason);
  return WithDetail(std::move(status), detail);
}

// Adds the place to an error whose message names it: "softmax.textproto:12:9: ...".
absl::Status WithPlace(absl::Status status);

}  // namespace tune::server
