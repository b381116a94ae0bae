// SPDX-License-Identifier: Apache-2.0
// A known kernel, not compiled from CUDA: is the device fit for use?
#pragma once

#include "absl/status/status.h"
#include "tuner/device/cpu/launcher.h"

namespace tune::cpu {

// Threads of every block meet at a barrier and read what another has written. INTERNAL: the sum is
// wrong.
absl::Status RunDeviceCanary(Launcher& launcher);

}  // namespace tune::cpu
