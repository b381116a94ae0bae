// SPDX-License-Identifier: Apache-2.0
// Reads a cubin: its target, its kernels, and how each is launched.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/artifact.h"

namespace tune::cuda {

struct CubinModule {
  int sm = 0;  // 90 of "sm_90" and of "sm_90a": a cubin does not tell them apart
  std::vector<EntryFacts> entries;  // parameters by size: a cubin has no types
};

// `name` is the file's, for messages. INVALID_ARGUMENT: no cubin, or one that is cut.
absl::StatusOr<CubinModule> ReadCubin(const std::string& name, absl::string_view bytes);

// A cubin runs on its own architecture and later ones of the same generation: sm_80 on sm_86, not
// on sm_90. INVALID_ARGUMENT says why not.
absl::Status CheckCubinTarget(int cubin_sm, const std::string& target);

}  // namespace tune::cuda
