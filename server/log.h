// SPDX-License-Identifier: Apache-2.0
// The daemon's log: lines for people, or JSON for collectors. Goes to stderr.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace tune::server {

enum class LogFormat { kText, kJson };

// `level`: "debug", "info", "warn", "error" or "off". INVALID_ARGUMENT names them.
absl::Status StartLog(const std::string& level, LogFormat format);

}  // namespace tune::server
