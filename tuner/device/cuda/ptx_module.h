// SPDX-License-Identifier: Apache-2.0
// Reads the header of a PTX text: its target, its kernels, and how each is launched.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/artifact.h"

namespace tune::cuda {

struct PtxModule {
  std::string version;  // of PTX: "7.8"
  std::string target;   // the least that it runs on: "sm_70", "sm_90a"
  std::vector<EntryFacts> entries;
};

// `name` is the file's, for messages. INVALID_ARGUMENT, with the line, if it has no version or no
// target, addresses of 32 bits, or a kernel whose parameters cannot be read.
absl::StatusOr<PtxModule> ReadPtx(const std::string& name, absl::string_view text);

// Does PTX for `ptx_target` run on `target`? "sm_70" does on all that are not older, "sm_100f" on
// those of its family, "sm_90a" on sm_90a alone. INVALID_ARGUMENT says why not.
absl::Status CheckPtxTarget(const std::string& ptx_target, const std::string& target);

}  // namespace tune::cuda
