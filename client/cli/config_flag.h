// SPDX-License-Identifier: Apache-2.0
// A config as a flag has it: --config 'BLOCK=128 STAGES=2'.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tune/v1/trial.pb.h"

namespace tune::client {

inline constexpr char kConfigHelp[] =
    "PARAM=VALUE, separated by spaces or commas; the other params take their defaults; may be "
    "given "
    "several times";

// Parses "BLOCK=128 KEEP=regs", with spaces or commas between. INVALID_ARGUMENT shows the form.
absl::StatusOr<v1::Config> ParseConfig(const std::string& text);

}  // namespace tune::client
