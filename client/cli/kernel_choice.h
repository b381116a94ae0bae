// SPDX-License-Identifier: Apache-2.0
// Which kernel a command is about. Every command takes a name of the catalogue or the path of a
// spec, as its argument or by --kernel.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tune::client {

// For the help of each.
inline constexpr char kKernelHelp[] = "Name in the catalogue, or path of a spec of your own";
inline constexpr char kKernelFlagHelp[] = "Kernel name or spec path (same as KERNEL)";

// Paths have a '/' or a '.', names neither.
bool IsSpecPath(const std::string& kernel);

// Puts the argument and the flag in the order of a name and a path, if only one of them is given.
void SortKernel(std::string& name, std::string& path);

// What the argument KERNEL and the flag --kernel were given.
struct KernelChoice {
  std::string argument;
  std::string flag;
};

// The argument or the flag. INVALID_ARGUMENT if both or none are given.
absl::StatusOr<std::string> OneKernel(const KernelChoice& choice);

// The name of a kernel: of a path the one that its spec gives.
absl::StatusOr<std::string> KernelName(const std::string& kernel);

}  // namespace tune::client
