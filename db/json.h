// SPDX-License-Identifier: Apache-2.0
// Lists as canonical JSON text, so that a person can read and query them with sqlite3: members in
// the order given, no spaces, equal values give equal text.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/config.h"
#include "tuner/counters/counting.h"

namespace tune::db {

using Dims = std::vector<std::pair<std::string, int64_t>>;

// INVALID_ARGUMENT for what would not read back the same: a name twice, a text that is not UTF-8,
// a float that is not finite.
absl::StatusOr<std::string> EncodeConfig(const Config& config);
absl::StatusOr<std::string> EncodeDims(const Dims& dims);
std::string EncodeIds(const std::vector<int64_t>& ids);

// A number that is not finite reads back as 0.
std::string EncodeQuantities(const Quantities& quantities);
std::string EncodeReadings(const std::vector<CounterReading>& readings);
std::string EncodeTexts(const std::vector<std::string>& texts);

// DATA_LOSS for anything that the functions above do not write.
absl::StatusOr<Config> DecodeConfig(absl::string_view text);
absl::StatusOr<Dims> DecodeDims(absl::string_view text);
absl::StatusOr<std::vector<int64_t>> DecodeIds(absl::string_view text);
// [["{\"BLOCK\":64}",1000.5]], as the query of records makes it.
absl::StatusOr<std::vector<std::pair<Config, double>>> DecodeTies(absl::string_view text);
absl::StatusOr<Quantities> DecodeQuantities(absl::string_view text);
absl::StatusOr<std::vector<CounterReading>> DecodeReadings(absl::string_view text);
absl::StatusOr<std::vector<std::string>> DecodeTexts(absl::string_view text);

// Samples as little-endian doubles.
std::string EncodeSamples(const std::vector<double>& samples);
std::vector<double> DecodeSamples(absl::string_view bytes);

}  // namespace tune::db
