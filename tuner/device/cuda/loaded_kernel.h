// SPDX-License-Identifier: Apache-2.0
// A cubin in the device's memory, ready to be launched with its arguments.
#pragma once

#include <cuda.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/harness.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune::cuda {

// Where the buffer of an argument is. INVALID_ARGUMENT if there is none that fits.
using BufferResolver = std::function<absl::StatusOr<Harness::Array>(const BufferPlan&)>;

// Not thread-safe. Unloads with its owner, unless the context is lost.
class LoadedKernel {
 public:
  // INVALID_ARGUMENT: this device cannot launch it so (too many threads, too much memory).
  // FAILED_PRECONDITION: the cubin does not load, or its parameters are not these arguments.
  static absl::StatusOr<LoadedKernel> Load(const DeviceContext& context, const std::string& binary,
                                           const LaunchPlan& launch,
                                           const std::vector<ArgPlan>& args,
                                           const BufferResolver& resolve);
  ~LoadedKernel();
  LoadedKernel(LoadedKernel&& other) noexcept;
  LoadedKernel& operator=(LoadedKernel&&) = delete;

  // Enqueues one launch. INVALID_ARGUMENT: the driver refuses the launch; ABORTED: a fault.
  absl::Status Launch() const;
  // Forgets the module without unloading it: after a fault the driver only answers errors.
  void Abandon() { module_ = nullptr; }

  // What the driver says of it.
  const Resources& resources() const { return resources_; }

 private:
  // A kernel parameter: at most a CUtensorMap, with its alignment.
  struct alignas(CUtensorMap) Parameter {
    unsigned char bytes[sizeof(CUtensorMap)] = {};
    size_t size = 0;
  };

  explicit LoadedKernel(const DeviceContext& context) : context_(&context) {}
  absl::Status LoadModule(const std::string& binary, const std::string& entry);
  absl::Status SetLaunch(const LaunchPlan& launch);
  absl::Status CheckCluster(const LaunchPlan& launch) const;
  absl::Status SetArguments(const std::vector<ArgPlan>& args, const BufferResolver& resolve);
  absl::Status CheckParameters() const;
  absl::StatusOr<int> Attribute(CUfunction_attribute attribute) const;
  CUlaunchConfig Config(CUlaunchAttribute* cluster) const;

  const DeviceContext* context_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  LaunchPlan launch_;
  std::vector<Parameter> parameters_;
  Resources resources_;
};

}  // namespace tune::cuda
