// SPDX-License-Identifier: Apache-2.0
// The memory of the host as a problem's. Operations are done when they return; whatever is to be
// read only is in pages that are.
#pragma once

#include <cstdint>
#include <memory>

#include "tuner/device/cpu/launcher.h"
#include "tuner/device/problem_device.h"

namespace tune::cpu {

// `launcher` must outlive it. A problem may have `memory_bytes_max`, and so may a scratch buffer.
std::unique_ptr<ProblemDevice> MakeProblemDevice(Launcher& launcher, int64_t memory_bytes_max);

}  // namespace tune::cpu
