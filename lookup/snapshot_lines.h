// SPDX-License-Identifier: Apache-2.0
// A snapshot's file by its lines: a daemon writes each kernel, record and grid on one that begins
// with the kernel's name, so what is about one kernel can be read alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tune::lookup {

// They point into the file's bytes, as do all lines here.
struct KernelLines {
  std::vector<absl::string_view> kernels;  // of one name: one
  std::vector<absl::string_view> records;
  std::vector<absl::string_view> grids;
  std::vector<absl::string_view> sweeps;  // in a file of sweeps that ship
};

using LinesByKernel = std::map<std::string, KernelLines>;

struct SnapshotLines {
  std::string head;  // all but the lists, as JSON
  LinesByKernel by_kernel;
};

// Returns nullopt if the file has another layout.
std::optional<SnapshotLines> SplitSnapshot(absl::string_view data);

// Adds what another file says. A kernel that both describe is as the first has it.
void AddLines(LinesByKernel more, LinesByKernel& all);

}  // namespace tune::lookup
