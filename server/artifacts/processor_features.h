// SPDX-License-Identifier: Apache-2.0
// The processor features of this host that the CPU device's compiler may have used. Kernels are
// compiled for the host's very processor, so a host that runs one must have as many.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tune::server {

// Sorted, as /proc/cpuinfo calls them: "avx2", "fma". Those that no code is made of are left out.
std::vector<std::string> ProcessorFeatures();
// Reads the features from the text of a /proc/cpuinfo.
std::vector<std::string> ProcessorFeaturesIn(absl::string_view cpuinfo);

}  // namespace tune::server
