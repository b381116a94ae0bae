// SPDX-License-Identifier: Apache-2.0
// A GPU as this process uses it: its context, the stream in which everything runs, its limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/device/cuda/driver_api.h"

namespace tune::cuda {

// Not thread-safe. The context is the device's primary one and lives as long as the process, which
// ends soon after a fault: nothing is torn down.
class DeviceContext {
 public:
  // NOT_FOUND: no such device.
  static absl::StatusOr<std::unique_ptr<DeviceContext>> Open(const DriverApi& driver, int ordinal);

  // The compute capability as one number, 90 for 9.0, without making a context.
  static absl::StatusOr<int> ReadSm(const DriverApi& driver, int ordinal);

  absl::Status Check(CUresult result, absl::string_view call) const {
    return driver.Check(result, call);
  }
  // Waits for the stream; reports the fault of a kernel in it.
  absl::Status Synchronize() const;

  DriverApi driver;
  CUdevice device = 0;
  CUcontext handle = nullptr;
  CUstream stream = nullptr;

  std::string name;
  std::string uuid;        // "GPU-8-4-4-4-12 hex digits"
  std::string pci_bus_id;  // "0000:3b:00.0"
  int driver_version = 0;  // 13000 for CUDA 13.0
  int sm = 0;              // 90
  int sm_count = 0;
  int max_threads_per_block = 0;
  int max_registers_per_block = 0;
  int max_shared_bytes = 0;  // per block, opt-in
  int l2_bytes = 0;
  int64_t memory_bytes = 0;

 private:
  explicit DeviceContext(const DriverApi& api) : driver(api) {}
  absl::Status ReadLimits();
};

// The target to compile for: "sm_90a" where an architecture has instructions of its own, else
// "sm_86".
std::string TargetOf(int sm);

// Device memory, freed with its owner.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  static absl::StatusOr<DeviceMemory> Allocate(const DeviceContext& context, size_t bytes);
  ~DeviceMemory() { Free(); }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  CUdeviceptr address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  void Free();

  const DeviceContext* context_ = nullptr;
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tune::cuda
