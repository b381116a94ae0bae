// SPDX-License-Identifier: Apache-2.0
// A program in this process: the artifact, loaded, and its steps with their arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/device/cpu/shared_guards.h"
#include "tuner/device/device_array.h"
#include "tuner/plan.h"

namespace tune::cpu {

// Creates the memory files from which programs are loaded in advance, for a process that will not
// be allowed to create any: its code could hide memory in such files, which no resident set counts.
// At most `count` libraries of up to `bytes_max` can be loaded at the same time.
absl::Status ReserveMemoryFiles(int count, int64_t bytes_max);

class LoadedProgram {
 public:
  // INVALID_ARGUMENT: an argument that cannot be. FAILED_PRECONDITION: not an artifact of this
  // version, parameters other than the spec's, or one that needs a sanitizer's runtime.
  static absl::StatusOr<LoadedProgram> Load(const Program& program, const BufferResolver& resolve);
  ~LoadedProgram();
  LoadedProgram(LoadedProgram&& other) noexcept;
  LoadedProgram& operator=(LoadedProgram&&) = delete;

  // Sets the symbols, then runs the steps one after the other; the nanoseconds from the first start
  // to the last end.
  // Errors as Launcher::Launch, of the step that failed.
  absl::StatusOr<double> Launch(Launcher& launcher) const;

  // Zones beside its shared memory: filled once, before the first launch.
  void FillGuards(Launcher& launcher) const;
  // See SharedGuards::DescribeDamage.
  std::string DescribeDamage(Launcher& launcher) const;

 private:
  struct Argument {
    alignas(8) std::array<unsigned char, 8> bytes = {};
    size_t size = 0;
  };
  // The library of a unit of the artifact.
  struct Library {
    void* handle = nullptr;
    void (*set_shared)(unsigned char* base) = nullptr;
    SharedGuards guards;
  };
  struct Symbol {
    void* variable = nullptr;
    DeviceArray elements;
  };
  struct Step {
    KernelCode code;
    LaunchPlan launch;
    std::vector<Argument> arguments;
    std::vector<DeviceArray> zero;
  };

  LoadedProgram() = default;
  absl::Status Open(const std::string& binary, int64_t dynamic_bytes);
  absl::StatusOr<const Library*> LibraryOf(int unit) const;
  absl::StatusOr<Step> LoadStep(const StepPlan& plan, const BufferResolver& resolve) const;
  absl::StatusOr<Symbol> LoadSymbol(const SymbolPlan& plan, const BufferResolver& resolve) const;
  absl::Status CheckParameters(const Library& library, const Step& step) const;

  std::vector<Library> libraries_;
  std::vector<Step> steps_;
  std::vector<Symbol> symbols_;
};

}  // namespace tune::cpu
