// SPDX-License-Identifier: Apache-2.0
// Launches the harness's own kernels (harness.cu). Everything is enqueued in the context's stream;
// nothing here waits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/harness_layout.h"
#include "tuner/plan.h"
#include "tuner/problem.h"

namespace tune::cuda {

// How harness.cu is compiled, so that a test without a GPU can.
CompilePlan HarnessCompilePlan(const std::string& target);

// Not thread-safe. Lives as long as its context.
class Harness {
 public:
  // Compiles and loads the kernels; also allocates what they share.
  static absl::StatusOr<std::unique_ptr<Harness>> Create(const DeviceContext& context,
                                                         Compiler& compiler);

  // An array in device memory.
  struct Array {
    DType dtype = DType::kF32;
    CUdeviceptr address = 0;
    int64_t count = 0;  // elements

    size_t bytes() const { return static_cast<size_t>(count * SizeInBytes(dtype)); }
  };

  absl::Status Fill(const Array& out, const tune::Fill& fill, uint64_t key);
  // Copies floats into a wider type.
  absl::Status Widen(const Array& out, const Array& in);
  // NaN for floats, an unlikely value for integers.
  absl::Status Poison(const Array& out);
  // Fills the second-level cache with clean lines of unused zeros.
  absl::Status FlushCache();

  // Guard ranges are set as a whole; CheckGuards reports on them in order.
  absl::Status SetGuards(const std::vector<GuardRange>& ranges);
  absl::Status RepairGuards();

  // A check: BeginCheck, any of the three, EndCheck; then, once the stream is done, results().
  absl::Status BeginCheck();
  absl::Status Compare(int slot, const Array& out, const Array& reference,
                       const TolerancePlan& tolerance);
  absl::Status Hash(int slot, CUdeviceptr address, size_t bytes);
  absl::Status CheckGuards();
  absl::Status EndCheck();
  // REQUIRES: the stream has been synchronised since EndCheck.
  const CheckResults& results() const { return *results_; }

  // Runs the canary kernel, waits, and holds its results against the host's own.
  absl::Status RunCanary();

 private:
  // In the order of kKernelNames.
  enum Kernel {
    kFill,
    kWiden,
    kCompare,
    kCompareFinish,
    kHash,
    kGuardFill,
    kGuardCheck,
    kFlush,
    kCanary,
    kKernelCount
  };

  explicit Harness(const DeviceContext& context) : context_(context) {}
  absl::Status Load(Compiler& compiler);
  absl::Status Allocate();
  template <typename... Args>
  absl::Status Launch(Kernel kernel, unsigned blocks, Args... args);
  // Blocks for `count` independent pieces of work, `each` of them a thread.
  unsigned BlocksFor(uint64_t count, uint64_t each) const;
  CUdeviceptr ResultAddress(size_t offset) const { return results_memory_.address() + offset; }

  const DeviceContext& context_;
  CUmodule module_ = nullptr;
  std::array<CUfunction, kKernelCount> functions_ = {};
  DeviceMemory results_memory_;
  DeviceMemory partials_;
  DeviceMemory guards_;
  DeviceMemory flush_;
  DeviceMemory canary_;
  size_t guard_count_ = 0;
  CheckResults* results_ = nullptr;  // page-locked host memory, never freed
  GuardRange* guard_table_ = nullptr;
};

}  // namespace tune::cuda
