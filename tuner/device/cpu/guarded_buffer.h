// SPDX-License-Identifier: Apache-2.0
// Memory for one of a kernel's buffers, between two guards that show whether something wrote
// outside. Beyond the guards is memory without access: touching it ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tuner/device/cpu/fault_report.h"

namespace tune::cpu {

class GuardedBuffer {
 public:
  static constexpr size_t kGuardBytes = 4096;

  GuardedBuffer() = default;
  // The data is aligned to 64 bytes. Buffers of different `index` begin at different distances
  // from a page, so that a kernel that walks several of them does not meet the same cache sets with
  // each. RESOURCE_EXHAUSTED: no memory.
  static absl::StatusOr<GuardedBuffer> Allocate(size_t bytes, unsigned index);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;

  // How a fault on the ground around it calls it: "buffer 'x'".
  void Name(const std::string& name);

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  void SetGuards();
  // Empty if both guards are whole; else what was done to them, to follow "wrote outside ...: ".
  std::string DescribeDamage() const;
  // From here on a write to the data ends the process.
  void MakeReadOnly();

 private:
  unsigned char* ground_ = nullptr;   // the mapping with the untouchable around it
  unsigned char* mapping_ = nullptr;  // what may be touched
  size_t mapping_bytes_ = 0;
  unsigned char* data_ = nullptr;
  size_t bytes_ = 0;
  FaultRegion region_;
};

}  // namespace tune::cpu
