// SPDX-License-Identifier: Apache-2.0
// Reports on stderr what a kernel was doing when it touched memory that it does not own. The
// process ends of the fault, and the supervisor sends a worker's last lines to the caller.
#pragma once

#include <cstddef>
#include <string>

namespace tune::cpu {

// A buffer and the unused address range around it. Known during its life; at most 256 are, further
// ones are left out.
class FaultRegion {
 public:
  FaultRegion() = default;
  FaultRegion(const std::string& name, const void* ground, size_t ground_bytes, const void* data,
              size_t data_bytes);
  ~FaultRegion();
  FaultRegion(FaultRegion&& other) noexcept;
  FaultRegion& operator=(FaultRegion&& other) noexcept;

 private:
  int place_ = -1;
};

// Whose code runs while it lives, where that is not the kernel's: "the checker". One at a time.
class FaultActor {
 public:
  explicit FaultActor(const char* name);
  ~FaultActor();
  FaultActor(const FaultActor&) = delete;
  FaultActor& operator=(const FaultActor&) = delete;
};

// From here on a segmentation fault is described before it ends the process.
void DescribeFaults();

}  // namespace tune::cpu
