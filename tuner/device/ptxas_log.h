// SPDX-License-Identifier: Apache-2.0
// Reads what ptxas says under --ptxas-options=-v.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "tuner/trial.h"

namespace tune {

// Registers, spills, stack and static shared memory of `entry`; zeros if the log does not name it.
Resources ParsePtxasLog(absl::string_view log, const std::string& entry);

}  // namespace tune
