// SPDX-License-Identifier: Apache-2.0
// JSON as Python writes it and as recordings need it. Internal to tuner/device/replay.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "tuner/value.h"

namespace tune::replay {

using Json = nlohmann::json;

// NaN and infinities, which Python writes and JSON does not have, are read as null.
// INVALID_ARGUMENT with line and column.
absl::StatusOr<Json> ParseJson(absl::string_view text);

// A param's value; nothing for null, lists and objects.
std::optional<Value> ToValue(const Json& json);
Json ToJson(const Value& value);
// A value as Python's str() shows it and a CSV cell holds it: 16, 0.5, True, anything else.
Value ValueFromText(absl::string_view text);

// Member access that cannot throw: null if it is not there.
const Json& Member(const Json& object, const char* name);
double NumberOr(const Json& json, double otherwise);
std::string TextOr(const Json& json, const std::string& otherwise);

// "4096 4096" for [4096, 4096], 4096 or "4096 4096".
std::string ProblemText(const Json& json);

// Sample standard deviation; 0 for fewer than two numbers.
double StandardDeviation(const Json& numbers);

}  // namespace tune::replay
