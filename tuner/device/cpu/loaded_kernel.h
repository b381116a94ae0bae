// SPDX-License-Identifier: Apache-2.0
// A compiled kernel in this process, with the arguments of one launch.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/device/cpu/shared_guards.h"
#include "tuner/plan.h"

namespace tune::cpu {

// Where a buffer argument's data is.
using BufferResolver = std::function<absl::StatusOr<void*>(const BufferPlan&)>;

class LoadedKernel {
 public:
  // INVALID_ARGUMENT: an argument that cannot be. FAILED_PRECONDITION: not a kernel of this
  // version, parameters other than the spec's, or one that needs a sanitizer's runtime.
  static absl::StatusOr<LoadedKernel> Load(const std::string& binary, const LaunchPlan& launch,
                                           const std::vector<ArgPlan>& args,
                                           const BufferResolver& resolve);
  ~LoadedKernel();
  LoadedKernel(LoadedKernel&& other) noexcept;
  LoadedKernel& operator=(LoadedKernel&&) = delete;

  // See Launcher::Launch.
  absl::StatusOr<double> Launch(Launcher& launcher) const;

  // Zones beside its shared memory. They are filled once, before the first launch.
  const SharedGuards& guards() const { return guards_; }

 private:
  struct Argument {
    alignas(8) std::array<unsigned char, 8> bytes = {};
    size_t size = 0;
  };

  LoadedKernel() = default;
  absl::Status Open(const std::string& binary);
  absl::Status SetArguments(const std::vector<ArgPlan>& args, const BufferResolver& resolve);
  absl::Status CheckParameters() const;

  void* library_ = nullptr;
  KernelCode code_;
  SharedGuards guards_;
  LaunchPlan launch_;
  std::vector<Argument> arguments_;
};

}  // namespace tune::cpu
