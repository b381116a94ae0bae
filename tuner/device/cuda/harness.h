// SPDX-License-Identifier: Apache-2.0
// A GPU as a prepared problem uses it: device memory for its buffers, and the harness's own kernels
// (harness.cu) that fill and check them. Whatever does not wait by its comment is only enqueued in
// the context's stream.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/harness_layout.h"
#include "tuner/device/problem_device.h"
#include "tuner/plan.h"
#include "tuner/problem.h"

namespace tune::cuda {

// How harness.cu is compiled, so that a test without a GPU can.
CompilePlan HarnessCompilePlan(const std::string& target);

// Not thread-safe. Lives as long as its context.
class Harness : public ProblemDevice {
 public:
  // Compiles and loads the kernels; also allocates what they share.
  static absl::StatusOr<std::unique_ptr<Harness>> Create(const DeviceContext& context,
                                                         Compiler& compiler);

  absl::Status CheckFits(size_t buffer_count, double bytes) const override;
  absl::StatusOr<DeviceArray> Allocate(size_t buffer, Part part, const BufferPlan& plan) override;
  void FreeAll() override;
  // Waits for the guards that were set before.
  absl::Status SetGuards() override;

  absl::Status SetBytes(const DeviceArray& out, unsigned char byte) override;
  absl::Status Fill(const DeviceArray& out, const tune::Fill& fill, uint64_t key) override;
  absl::Status Copy(const DeviceArray& out, const DeviceArray& in) override;
  absl::Status Widen(const DeviceArray& out, const DeviceArray& in) override;
  absl::Status Upload(const DeviceArray& out, const std::string& elements) override;
  absl::Status Download(const DeviceArray& in, void* host) override;
  // Fills the second-level cache with clean lines of unused zeros.
  absl::Status FlushCache() override;

  absl::Status BeginCheck() override;
  absl::Status Compare(size_t buffer, const DeviceArray& out, const DeviceArray& reference,
                       const TolerancePlan& tolerance) override;
  absl::Status Hash(size_t buffer, const DeviceArray& in) override;
  absl::Status EndCheck() override;
  absl::Status Wait() override { return context_.Synchronize(); }
  const CompareResult& comparison(size_t buffer) const override {
    return results_->compare[buffer];
  }
  uint64_t hash(size_t buffer) const override { return results_->hashes[buffer]; }
  std::string DescribeDamage(size_t buffer) const override;

  absl::Status Seal(Part part) override;
  absl::StatusOr<bool> SealsHold() override;
  absl::StatusOr<std::unique_ptr<OwnProgram>> Load(const Program& program,
                                                   const BufferResolver& resolve,
                                                   const char* name) override;

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

  struct Buffer {
    std::array<DeviceMemory, kPartCount> parts;
    size_t data_bytes = 0;  // between the guards
  };

  explicit Harness(const DeviceContext& context) : context_(context) {}
  absl::Status LoadKernels(Compiler& compiler);
  absl::Status AllocateShared();
  template <typename... Args>
  absl::Status Launch(Kernel kernel, unsigned blocks, Args... args);
  // Blocks for `count` independent pieces of work, `each` of them a thread.
  unsigned BlocksFor(uint64_t count, uint64_t each) const;
  CUdeviceptr ResultAddress(size_t offset) const { return results_memory_.address() + offset; }
  // Hashes this part of every buffer; waits.
  absl::StatusOr<std::vector<uint64_t>> HashParts(Part part);

  const DeviceContext& context_;
  CUmodule module_ = nullptr;
  std::array<CUfunction, kKernelCount> functions_ = {};
  DeviceMemory results_memory_;
  DeviceMemory partials_;
  DeviceMemory guards_;
  DeviceMemory flush_;
  DeviceMemory canary_;
  std::vector<Buffer> buffers_;
  std::map<Part, std::vector<uint64_t>> seals_;  // the hashes of all buffers
  size_t guard_count_ = 0;                       // two a buffer
  CheckResults* results_ = nullptr;              // page-locked host memory, never freed
  GuardRange* guard_table_ = nullptr;
};

}  // namespace tune::cuda
