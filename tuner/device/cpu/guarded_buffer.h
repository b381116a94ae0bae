// SPDX-License-Identifier: Apache-2.0
// Memory for one of a kernel's buffers, between two guards that tell when something wrote outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

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

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  void SetGuards();
  // Empty if both guards are whole; else what was done to them, to follow "wrote outside ...: ".
  std::string DescribeDamage() const;
  // From here on a write to the data ends the process.
  void MakeReadOnly();

 private:
  unsigned char* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  unsigned char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tune::cpu
