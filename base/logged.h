// SPDX-License-Identifier: Apache-2.0
// Statuses as the log shows them.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace tune {

// The code and the message, without the payloads by which callers tell statuses apart.
inline std::string Logged(const absl::Status& status) {
  return status.ToString(absl::StatusToStringMode::kWithNoExtraData);
}

}  // namespace tune
