// SPDX-License-Identifier: Apache-2.0
// References in NumPy: what is called a compile here is a call of the plan's entry with a problem's
// inputs, in a process of its own; what it makes is the elements of the outputs.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"

namespace tune::python {

// By the Python that TUNE_NUMPY_PYTHON names, else the first that has NumPy. FAILED_PRECONDITION
// says what was looked at, and what to do.
absl::StatusOr<std::unique_ptr<Compiler>> MakeNumpyReference();

}  // namespace tune::python
