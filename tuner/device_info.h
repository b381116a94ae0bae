// SPDX-License-Identifier: Apache-2.0
// A device's description of itself.
#pragma once

#include <cstdint>
#include <string>

#include "tuner/trial.h"

namespace tune {

struct DeviceInfo {
  std::string name;    // "NVIDIA H200", "cpu:AMD EPYC 9654"
  std::string target;  // "sm_90a", "cpu"
  int64_t sm_count = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t max_shared_bytes = 0;
  std::string uuid;
  std::string driver;
  Clock clock = Clock::kUnknown;
  std::string clock_note;  // why not the canonical clock; empty if it is
};
TUNE_FIELDS(DeviceInfo, name, target, sm_count, memory_bytes, l2_bytes, max_shared_bytes, uuid,
            driver, clock, clock_note);

}  // namespace tune
