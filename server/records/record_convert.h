// SPDX-License-Identifier: Apache-2.0
// Records as messages.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/store.h"
#include "lookup/record.h"
#include "tune/v1/record.pb.h"

namespace tune::server {

v1::Record ToProto(const lookup::Record& record);
// INVALID_ARGUMENT: a number that does not fit, or an enum value that there is not.
absl::StatusOr<lookup::Record> FromProto(const v1::Record& proto);
// Reads the bytes of a record on the wire, which this program wrote. DATA_LOSS.
absl::StatusOr<lookup::Record> RecordFromWire(absl::string_view bytes);
// `on_wire`: the same record as a v1::Record, if it is at hand. Then it goes along as it is, and
// only who reads the response from the wire sees it.
void AddRecord(const lookup::Record& record, absl::string_view on_wire,
               v1::LookupResponse& response);

}  // namespace tune::server
