// SPDX-License-Identifier: Apache-2.0
// Which kernel a command is about. Every command takes a name of the catalogue or the path of a
// spec, as its argument or by --kernel.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::client {

// For the help of each.
inline constexpr char kKernelHelp[] = "Name in the catalogue, or path of a spec of your own";
inline constexpr char kKernelFlagHelp[] = "Kernel name or spec path (same as KERNEL)";

// Paths have a '/' or a '.', names neither.
bool IsSpecPath(const std::string& kernel);

// The values of the argument KERNEL and of the flag --kernel.
struct KernelChoice {
  std::vector<std::string> arguments;
  std::vector<std::string> flags;
  bool several = false;  // the command takes more than one

  std::vector<std::string> All() const;
};

// INVALID_ARGUMENT if what was given for a kernel is a dim with its size, such as "rows=64".
absl::Status CheckIsNoDim(const std::string& kernel);

// The one kernel that was given. INVALID_ARGUMENT if none or more were, or a dim.
absl::StatusOr<std::string> OneKernel(const KernelChoice& choice);

// The name of a kernel: of a path the one that its spec gives.
absl::StatusOr<std::string> KernelName(const std::string& kernel);

}  // namespace tune::client
