// SPDX-License-Identifier: Apache-2.0
// Lists as Python programs write them into files of other tuners: the values of a param in T1 may
// be "[32 * i for i in range(1, 5)]" or "[1] + list(range(2, 9, 2))". They are evaluated here, step
// by step, over the expression language of specs; no Python runs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/value.h"

namespace tune {

// The values of a list display, a comprehension (with several `for` and `if`), a `range` of one to
// three arguments, `list`, `tuple`, `sorted` or `set` of a list, and sums of these.
// INVALID_ARGUMENT: text that is none of them, or more than 65536 values or steps.
absl::StatusOr<std::vector<Value>> ParsePythonList(const std::string& text);

}  // namespace tune
