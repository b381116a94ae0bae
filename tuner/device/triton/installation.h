// SPDX-License-Identifier: Apache-2.0
// The Python on this host that has Triton.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::triton {

struct Installation {
  std::string python;                 // the program, by its path
  std::string version;                // "3.9.0"
  std::string ptxas;                  // "12.9 and 13.4": the releases that come with it
  std::vector<std::string> readable;  // folders of that Python and of Triton
  std::vector<std::string> programs;  // the interpreter and the wheel's ptxas

  // "Triton 3.9.0, ptxas 12.9 and 13.4": what decides what comes of a compile.
  std::string Text() const;
};

// The Python that TUNE_TRITON_PYTHON names; else the first that has Triton 3.5 or later of: the
// environment that VIRTUAL_ENV names, this project's own, python3 on PATH. Runs each that it asks,
// but nothing that was sent. FAILED_PRECONDITION says what was looked at, and what to do.
absl::StatusOr<Installation> FindTriton();

}  // namespace tune::triton
