// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/subprocess.h"

#include "absl/strings/str_cat.h"

namespace tune::cpu {

absl::StatusOr<ChildResult> RunProgram(const std::vector<std::string>& arguments,
                                       const std::string& folder) {
  // GCC also takes folders to search, and options, from variables of its own.
  std::vector<std::string> environment =
      EnvironmentWithout({"TMPDIR=", "LC_", "LANG", "CPATH=", "C_INCLUDE_PATH=",
                          "CPLUS_INCLUDE_PATH=", "DEPENDENCIES_OUTPUT=", "SUNPRO_DEPENDENCIES="},
                         {absl::StrCat("TMPDIR=", folder), "LC_ALL=C"});
  // A template recursion can print megabytes; the first errors are the ones that help.
  return RunChild({.program = arguments[0],
                   .arguments = {arguments.begin() + 1, arguments.end()},
                   .environment = std::move(environment),
                   .folder = folder},
                  ChildErrors::kInOutput, {});
}

}  // namespace tune::cpu
