// SPDX-License-Identifier: Apache-2.0
// A program in the device's memory: the artifact as a module, and its steps with their arguments.
#pragma once

#include <cuda.h>

#include <array>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/device_array.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune::cuda {

// Not thread-safe. Unloads with its owner, unless the context is lost.
class LoadedProgram {
 public:
  // INVALID_ARGUMENT: this device cannot launch it so (too many threads, too much memory).
  // FAILED_PRECONDITION: the artifact does not load, or its parameters are not these arguments.
  static absl::StatusOr<LoadedProgram> Load(const DeviceContext& context, const Program& program,
                                            const BufferResolver& resolve);
  ~LoadedProgram();
  LoadedProgram(LoadedProgram&& other) noexcept;
  LoadedProgram& operator=(LoadedProgram&&) = delete;

  // Enqueues the filling of its symbols, ahead of every launch. ABORTED: a fault.
  absl::Status SetSymbols() const;
  // Enqueues the steps, one after the other. INVALID_ARGUMENT: the driver refuses a launch;
  // ABORTED: a fault.
  absl::Status Launch() const;
  // Forgets the modules without unloading them: after a fault the driver only answers errors.
  void Abandon() { modules_.clear(); }

  // The driver's figures: for each resource, the most that a step takes.
  const Resources& resources() const { return resources_; }

  // The number of kernels in a Launch, and of memsets before the first of them, as a clock sees
  // them.
  size_t kernel_count() const { return steps_.size(); }
  size_t leading_memsets() const { return steps_.front().zero.size(); }

 private:
  // A kernel parameter: at most a CUtensorMap, with its alignment.
  struct alignas(CUtensorMap) Parameter {
    unsigned char bytes[sizeof(CUtensorMap)] = {};
    size_t size = 0;
  };
  struct Step {
    CUfunction function = nullptr;
    LaunchPlan launch;
    std::vector<Parameter> parameters;
    std::vector<DeviceArray> zero;
  };

  struct Symbol {
    CUdeviceptr variable = 0;
    DeviceArray elements;
  };
  // Launch attributes besides the sizes.
  using Attributes = std::array<CUlaunchAttribute, 3>;

  explicit LoadedProgram(const DeviceContext& context) : context_(&context) {}
  absl::Status LoadModule(const std::string& binary);
  absl::Status CompileText(const std::string& text, CUmodule& module) const;
  absl::StatusOr<CUmodule> ModuleOf(int unit) const;
  absl::StatusOr<Symbol> LoadSymbol(const SymbolPlan& plan, const BufferResolver& resolve) const;
  // `shared_bytes_max`: of all launches of its entry.
  absl::StatusOr<Step> LoadStep(const StepPlan& plan, int64_t shared_bytes_max,
                                const BufferResolver& resolve);
  absl::Status CheckLaunch(const Step& step, int64_t shared_bytes_max);
  absl::Status CheckCluster(const Step& step) const;
  absl::Status CheckCooperative(const Step& step) const;
  absl::StatusOr<int64_t> BlocksAtOnce(const Step& step) const;
  absl::Status SetArguments(const std::vector<ArgPlan>& args, const BufferResolver& resolve,
                            Step& step) const;
  absl::Status CheckParameters(const Step& step) const;
  absl::StatusOr<int> Attribute(const Step& step, CUfunction_attribute attribute) const;
  CUlaunchConfig Config(const LaunchPlan& launch, Attributes& attributes) const;
  absl::Status Launch(const Step& step) const;

  const DeviceContext* context_;
  std::vector<CUmodule> modules_;  // one of each unit of the artifact
  std::vector<Step> steps_;
  std::vector<Symbol> symbols_;
  Resources resources_;
};

}  // namespace tune::cuda
