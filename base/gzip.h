// SPDX-License-Identifier: Apache-2.0
// gzip, in memory.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune {

bool IsGzip(absl::string_view bytes);
// INVALID_ARGUMENT: damaged or cut short. RESOURCE_EXHAUSTED: more than `bytes_max` unpacked.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, size_t bytes_max);
// The text before `end`, or all of it without `end`. It unpacks no more than that takes, so that it
// does not see later damage. Errors as Gunzip's.
absl::StatusOr<std::string> GunzipUntil(absl::string_view bytes, absl::string_view end,
                                        size_t bytes_max);
// Always gives the same bytes for the same text.
std::string Gzip(absl::string_view text);

}  // namespace tune
