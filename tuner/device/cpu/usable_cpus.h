// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace tune::cpu {

// The hardware threads that this process may use, by the system's numbers; empty if it does not
// report them.
std::vector<int> UsableCpus();

}  // namespace tune::cpu
