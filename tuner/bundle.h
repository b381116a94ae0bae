// SPDX-License-Identifier: Apache-2.0
// Several binaries as one: what a compilation of several units makes. One alone is itself.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune {

std::string Bundle(const std::vector<std::string>& binaries);

// They point into `binary`. INVALID_ARGUMENT: it is cut or was not made by Bundle.
absl::StatusOr<std::vector<absl::string_view>> Unbundle(absl::string_view binary);

}  // namespace tune
