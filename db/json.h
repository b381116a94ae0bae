// SPDX-License-Identifier: Apache-2.0
// Lists and maps as canonical JSON text, so that a person can read and query them with sqlite3:
// members in the order given, no spaces, equal values give equal text.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/store.h"
#include "lookup/record.h"
#include "tuner/config.h"
#include "tuner/counters/counting.h"

namespace tune::db {

using Dims = std::vector<std::pair<std::string, int64_t>>;

// INVALID_ARGUMENT for what would not read back the same: of configs and dims, a name twice, a text
// that is not UTF-8, a float that is not finite. Other numbers that are not finite read back as 0.
absl::StatusOr<std::string> Encode(const Config& config);
absl::StatusOr<std::string> Encode(const Dims& dims);
absl::StatusOr<std::string> Encode(const std::vector<int64_t>& ids);
absl::StatusOr<std::string> Encode(const std::vector<std::string>& texts);
absl::StatusOr<std::string> Encode(const Quantities& quantities);
absl::StatusOr<std::string> Encode(const std::vector<CounterReading>& readings);

// DATA_LOSS for anything that the functions above do not write.
absl::Status Decode(absl::string_view text, Config& config);
absl::Status Decode(absl::string_view text, Dims& dims);
absl::Status Decode(absl::string_view text, std::vector<int64_t>& ids);
absl::Status Decode(absl::string_view text, std::vector<std::string>& texts);
absl::Status Decode(absl::string_view text, Quantities& quantities);
absl::Status Decode(absl::string_view text, std::vector<CounterReading>& readings);
// [["{\"BLOCK\":64}",1000.5]], as the query of records makes it.
absl::Status Decode(absl::string_view text, std::vector<lookup::RecordTie>& ties);

// Samples as little-endian doubles.
std::string Encode(const std::vector<double>& samples);
absl::Status Decode(absl::string_view bytes, std::vector<double>& samples);

}  // namespace tune::db
