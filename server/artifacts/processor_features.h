// SPDX-License-Identifier: Apache-2.0
// What the CPU device's compiler may have used of this host's processor: kernels are compiled for
// the very processor, so whoever runs one must have as much.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tune::server {

// Sorted, as /proc/cpuinfo calls them: "avx2", "fma". Those that no code is made of are left out.
std::vector<std::string> ProcessorFeatures();
// The same of the text of a /proc/cpuinfo.
std::vector<std::string> ProcessorFeaturesIn(absl::string_view cpuinfo);

}  // namespace tune::server
