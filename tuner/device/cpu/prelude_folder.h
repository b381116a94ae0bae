// SPDX-License-Identifier: Apache-2.0
// The folder with the header that is included ahead of every kernel and the substitutes for CUDA's
// headers. All compiles of a process share it; beside it each compile has a folder of its own.
//
//   PRELUDE/prelude/prelude.h       and what it includes
//   PRELUDE/prelude/prelude.h.gch   the same, read by g++ in a fifth of the time
//   PRELUDE/shims/                  cuda_bf16.h and the like
//   PRELUDE/tune-cpu-XXXXXX/        a compile's folder
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cpu/scratch_folder.h"

namespace tune::cpu {

class PreludeFolder {
 public:
  // UNAVAILABLE, here and below: the folder cannot be written.
  static absl::StatusOr<std::unique_ptr<PreludeFolder>> Make();

  // Returns a folder for one compile. Writes the prelude again if it was removed.
  absl::StatusOr<std::unique_ptr<ScratchFolder>> ForCompile() const;

  // Compiles the prelude by itself, with the `arguments` that kernels are compiled with: g++ takes
  // the result only where they are the same. Makes kernels compile sooner, and changes nothing
  // else: where it does not work out, nothing is said.
  void Precompile(std::vector<std::string> arguments) const;

 private:
  explicit PreludeFolder(std::unique_ptr<ScratchFolder> root) : root_(std::move(root)) {}
  absl::Status Write() const;

  const std::unique_ptr<ScratchFolder> root_;
};

}  // namespace tune::cpu
