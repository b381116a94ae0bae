// SPDX-License-Identifier: Apache-2.0
// The error of work for which the host's disk has too little room. It is no variant's fault and
// passes by itself, so a sweep that gets it waits and goes on.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace tune::server {

inline constexpr char kHostShortPayload[] = "tunectl/host-short";

inline absl::Status HostShortError(absl::string_view why) {
  absl::Status status = absl::AbortedError(why);
  status.SetPayload(kHostShortPayload, absl::Cord());
  return status;
}

inline bool IsHostShort(const absl::Status& status) {
  return status.GetPayload(kHostShortPayload).has_value();
}

}  // namespace tune::server
