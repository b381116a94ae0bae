// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/prelude_folder.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tuner/device/cpu/subprocess.h"
#include "base/status_macros.h"

namespace tune::embedded {
extern const std::string_view prelude_abi;
extern const std::string_view prelude_assert;
extern const std::string_view prelude_atomics;
extern const std::string_view prelude_functions;
extern const std::string_view prelude_groups;
extern const std::string_view prelude_half;
extern const std::string_view prelude_launch;
extern const std::string_view prelude_prelude;
extern const std::string_view prelude_sync;
extern const std::string_view prelude_vectors;
}  // namespace tune::embedded

namespace tune::cpu {
namespace {

namespace fs = std::filesystem;

// A header whose contents the prelude already has.
constexpr std::string_view kShim = "#pragma once\n";
constexpr std::string_view kGroups = "#pragma once\n#include <cooperative_groups.h>\n";
// CUDA headers that the prelude does not replace. If the host has CUDA's own, they could be found,
// and a kernel would compile on one host and not on the next.
constexpr const char* kNotHere[] = {
    "cuComplex.h",          "cuda.h",         "cuda_awbarrier.h",   "cuda_fp4.h",
    "cuda_fp6.h",           "cuda_pipeline.h", "curand_kernel.h",   "device_functions.h",
    "math_constants.h",     "mma.h",           "vector_functions.h"};

}  // namespace

absl::StatusOr<std::unique_ptr<PreludeFolder>> PreludeFolder::Make() {
  ASSIGN_OR_RETURN(std::unique_ptr<ScratchFolder> root, ScratchFolder::Make());
  auto folder = std::unique_ptr<PreludeFolder>(new PreludeFolder(std::move(root)));
  RETURN_IF_ERROR(folder->Write());
  return folder;
}

absl::Status PreludeFolder::Write() const {
  const std::pair<const char*, std::string_view> ours[] = {
      {"prelude/abi.h", embedded::prelude_abi},
      {"prelude/atomics.h", embedded::prelude_atomics},
      {"prelude/functions.h", embedded::prelude_functions},
      {"prelude/half.h", embedded::prelude_half},
      {"prelude/launch.h", embedded::prelude_launch},
      {"prelude/prelude.h", embedded::prelude_prelude},
      {"prelude/sync.h", embedded::prelude_sync},
      {"prelude/vectors.h", embedded::prelude_vectors},
      {"shims/assert.h", embedded::prelude_assert},
      {"shims/cassert", embedded::prelude_assert},
      {"shims/cuda_bf16.h", kShim},
      {"shims/cuda_fp16.h", kShim},
      {"shims/cuda_fp8.h", kShim},
      {"shims/cooperative_groups.h", embedded::prelude_groups},
      {"shims/cooperative_groups/memcpy_async.h", kGroups},
      {"shims/cooperative_groups/reduce.h", kGroups},
      {"shims/cooperative_groups/scan.h", kGroups},
      {"shims/cuda_device_runtime_api.h", kShim},
      {"shims/cuda_runtime.h", kShim},
      {"shims/cuda_runtime_api.h", kShim},
      {"shims/device_launch_parameters.h", kShim},
      {"shims/vector_types.h", kShim},
  };
  for (const auto& [name, text] : ours) RETURN_IF_ERROR(root_->Write(name, text));
  for (const char* name : kNotHere) {
    const std::string error = absl::StrCat("#error \"<", name,
                                           "> is CUDA's and is not there on the CPU device: put it "
                                           "under #ifndef TUNE_CPU\"\n");
    RETURN_IF_ERROR(root_->Write(absl::StrCat("shims/", name), error));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ScratchFolder>> PreludeFolder::ForCompile() const {
  std::error_code ignored;
  if (!fs::exists(fs::path(root_->path()) / "prelude/prelude.h", ignored)) {
    RETURN_IF_ERROR(Write());
  }
  return ScratchFolder::MakeIn(root_->path());
}

void PreludeFolder::Precompile(std::vector<std::string> arguments) const {
  for (const char* option : {"-x", "c++-header", "-I", "../shims", "prelude.h", "-o", "part"}) {
    arguments.push_back(option);
  }
  const fs::path folder = fs::path(root_->path()) / "prelude";
  const absl::StatusOr<ChildResult> compiled = RunProgram(arguments, folder.string());
  std::error_code ignored;
  if (compiled.ok() && compiled->exit_code == 0) {
    fs::rename(folder / "part", folder / "prelude.h.gch", ignored);
  }
  fs::remove(folder / "part", ignored);
}

}  // namespace tune::cpu
