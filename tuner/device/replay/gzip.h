// SPDX-License-Identifier: Apache-2.0
// gzip, in memory.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune::replay {

bool IsGzip(absl::string_view bytes);
// INVALID_ARGUMENT: damaged or cut short. RESOURCE_EXHAUSTED: more than `bytes_max` unpacked.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, size_t bytes_max);
// Always gives the same bytes for the same text.
std::string Gzip(absl::string_view text);

}  // namespace tune::replay
