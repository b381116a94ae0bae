// SPDX-License-Identifier: Apache-2.0
// Records as messages.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lookup/record.h"
#include "tune/v1/record.pb.h"

namespace tune::server {

v1::Record ToProto(const lookup::Record& record);
// INVALID_ARGUMENT: a number does not fit, or an enum value does not exist.
absl::StatusOr<lookup::Record> FromProto(const v1::Record& proto);
// Adds a record to a response. `on_wire` is the record as a v1::Record, if it is at hand; it is
// then added as unparsed bytes, which only a reader of the response on the wire sees.
void AddRecord(const lookup::Record& record, absl::string_view on_wire,
               v1::LookupResponse& response);

}  // namespace tune::server
