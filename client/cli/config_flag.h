// SPDX-License-Identifier: Apache-2.0
// A config as a flag has it: --config 'BLOCK=128 STAGES=2'.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tune/v1/trial.pb.h"

namespace tune::client {

// "BLOCK=128 KEEP=regs", with spaces or commas between. INVALID_ARGUMENT shows how it is written.
absl::StatusOr<v1::Config> ParseConfig(const std::string& text);

}  // namespace tune::client
