// SPDX-License-Identifier: Apache-2.0
// Records as messages.
#pragma once

#include "absl/status/statusor.h"
#include "db/store.h"
#include "tune/v1/record.pb.h"

namespace tune::server {

v1::Record ToProto(const db::RecordRow& record);
// INVALID_ARGUMENT: a number that does not fit, or an enum value that there is not.
absl::StatusOr<db::RecordRow> FromProto(const v1::Record& proto);

}  // namespace tune::server
