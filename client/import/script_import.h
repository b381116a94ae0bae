// SPDX-License-Identifier: Apache-2.0
// Other tuners' scripts as kernels. A script is read by Python's own parser in a process that ends,
// and none of it is run. On request it is run instead, as its user runs it, with modules in the
// place of kernel_tuner and triton that take down what is tuned and launch nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::client {

struct ImportedKernel {
  std::string name;
  std::map<std::string, std::string> files;  // a spec named after the kernel, its source, headers
  std::vector<std::string> left;             // to be written before it sweeps
  std::vector<std::string> notes;            // what its author should know
};

// How to run a script: with the user's environment and rights, and no walls.
struct ScriptRun {
  std::vector<std::string> arguments;  // sys.argv behind the script's name
};

// A Kernel Tuner script: its call number `call`, from 1, of tune_kernel. Or one with Triton
// kernels: the function of that number with @triton.autotune. `run`: null to read the script only.
// INVALID_ARGUMENT: there is none, or nothing can be made of it, and why; or there is no python3.
absl::StatusOr<ImportedKernel> ImportScript(const std::string& path, int call,
                                            const ScriptRun* run = nullptr);

}  // namespace tune::client
