// SPDX-License-Identifier: Apache-2.0
// A program in this process: the artifact, loaded, and its steps with their arguments.
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

class LoadedProgram {
 public:
  // INVALID_ARGUMENT: an argument that cannot be. FAILED_PRECONDITION: not an artifact of this
  // version, parameters other than the spec's, or one that needs a sanitizer's runtime.
  static absl::StatusOr<LoadedProgram> Load(const Program& program, const BufferResolver& resolve);
  ~LoadedProgram();
  LoadedProgram(LoadedProgram&& other) noexcept;
  LoadedProgram& operator=(LoadedProgram&&) = delete;

  // Runs the steps one after the other; the nanoseconds from the first start to the last end.
  // Errors as Launcher::Launch, of the step that failed.
  absl::StatusOr<double> Launch(Launcher& launcher) const;

  // Zones beside its shared memory. They are filled once, before the first launch.
  const SharedGuards& guards() const { return guards_; }

 private:
  struct Argument {
    alignas(8) std::array<unsigned char, 8> bytes = {};
    size_t size = 0;
  };
  struct Range {
    void* data = nullptr;
    size_t bytes = 0;
  };
  struct Step {
    KernelCode code;
    LaunchPlan launch;
    std::vector<Argument> arguments;
    std::vector<Range> zero;
  };

  LoadedProgram() = default;
  absl::Status Open(const std::string& binary);
  absl::StatusOr<Step> LoadStep(const StepPlan& plan, const BufferResolver& resolve) const;
  absl::Status CheckParameters(const Step& step) const;

  void* library_ = nullptr;
  void (*set_shared_)(unsigned char* base) = nullptr;
  SharedGuards guards_;
  std::vector<Step> steps_;
};

}  // namespace tune::cpu
