// SPDX-License-Identifier: Apache-2.0
// Reads a cubin: its target, its kernels, and how each is launched.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/artifact.h"

namespace tune {

struct CubinModule {
  int sm = 0;  // 90 of "sm_90" and of "sm_90a": a cubin does not tell them apart
  std::vector<EntryFacts> entries;  // parameters by size: a cubin has no types
};

// `name` is the file's, for messages. INVALID_ARGUMENT: no cubin, or one that is cut or does not
// list all parameters of an entry.
absl::StatusOr<CubinModule> ReadCubin(const std::string& name, absl::string_view bytes);

}  // namespace tune
