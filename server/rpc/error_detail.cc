// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/error_detail.h"

#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tune::server {

absl::Status WithDetail(absl::Status status, const v1::ErrorDetail& detail) {
  status.SetPayload(absl::StrCat("type.googleapis.com/", detail.GetTypeName()),
                    absl::Cord(detail.SerializeAsString()));
  return status;
}

absl::Status WithPlace(absl::Status status) {
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_SPEC_INVALID);
  const std::vector<std::string> parts = absl::StrSplit(status.message(), absl::MaxSplits(':', 3));
  uint32_t line = 0;
  uint32_t column = 0;
  if (parts.size() == 4 && absl::SimpleAtoi(parts[1], &line) &&
      absl::SimpleAtoi(parts[2], &column)) {
    detail.set_file(parts[0]);
    detail.set_line(line);
    detail.set_column(column);
  }
  return WithDetail(std::move(status), detail);
}

}  // namespace tune::server
