// SPDX-License-Identifier: Apache-2.0
// Spaces as other tuners write them down: a JSON object of params and Python-style restrictions.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "tuner/space/space.h"

namespace tune {

// Reads the part of a JSON object that defines a space; other members are left alone.
//
//   params        "parameters": [{"name": "BX", "values": [16, 32]}, ...], "parameters" or
//                 "tune_params": {"BX": [16, 32], ...} (Kernel Tuner), or "ConfigurationSpace":
//                 {"TuningParameters": [{"Name": "BX", "Values": "[16, 32]"}, ...]} (T1). Values
//                 are integers, floats, booleans and strings; a string in place of the list is an
//                 expression that gives one: "range(1, 9)".
//   constraints   "constraints", "restrictions" or, in T1, "Conditions": a string or a list of
//                 strings or of objects with "expr", "expression" or "Expression".
//
// Expressions are Python's, as kernel.proto describes them. INVALID_ARGUMENT names what is wrong
// and where; a Python lambda is refused.
absl::StatusOr<SpaceDefinition> ParseSpaceDefinition(std::string_view json);

}  // namespace tune
