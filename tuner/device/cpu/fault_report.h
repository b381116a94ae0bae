// SPDX-License-Identifier: Apache-2.0
// What a kernel was doing when it touched memory that it has not: said on stderr while the process
// ends of it, since the last words of a worker are told to whoever asked for the launch.
#pragma once

#include <cstddef>
#include <string>

namespace tune::cpu {

// A buffer with the ground around it that belongs to nobody else. Known while it lives; at most 256
// are, further ones are left out.
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
