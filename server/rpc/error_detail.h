// SPDX-License-Identifier: Apache-2.0
// What a client can act on, attached to a status where the error is born; ToGrpc carries it.
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

// Of an error that says where: "softmax.textproto:12:9: ...".
absl::Status WithPlace(absl::Status status);

}  // namespace tune::server
