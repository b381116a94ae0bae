// SPDX-License-Identifier: Apache-2.0
// Parts of GPUs. A slice (MIG), a share of the multiprocessors (MPS) and a locality domain report
// the name of the whole card, or nearly so, and are other devices: a config that is best on the
// whole need not be so on a part. Keys tell devices apart by name, so a part has a name of its own.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tune {

// The name in keys of a GPU that the driver calls `name`: that name for a whole card, and
// "NVIDIA H200 (66 SMs, 140 GiB)" for one with fewer multiprocessors than the card has. The name
// alone if the count is 0, not known, or the card is none that this program knows; a slice of such
// a card is told by the driver's name.
std::string NameOfGpu(absl::string_view name, int64_t sm_count, int64_t memory_bytes);

// Whether a name is one of a part.
bool IsPartOfGpu(absl::string_view name);

}  // namespace tune
