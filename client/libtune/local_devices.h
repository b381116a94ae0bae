// SPDX-License-Identifier: Apache-2.0
// Which devices this process has, by the names that records have. Opens the driver's libraries if
// they are there, and makes no CUDA context.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tune::library {

struct LocalDevice {
  std::string id;        // "cuda:0", "cpu"
  std::string name;      // "NVIDIA H200", "cpu:AMD EPYC 9654"
  std::string target;    // "sm_90a", "cpu"; empty: not known
  std::string driver;    // its version, of the CPU the system's; empty: not known
  int64_t sm_count = 0;  // multiprocessors, or processors that this process may use; 0: not known
};

// The first is what a job uses by default: the GPU of the thread's current context, else the first
// that CUDA_VISIBLE_DEVICES leaves; the CPU is the last. The first call looks for libraries;
// whether the job has the CUDA driver open is decided then.
std::vector<LocalDevice> LocalDevices();

}  // namespace tune::library
