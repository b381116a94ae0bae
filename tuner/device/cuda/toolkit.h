// SPDX-License-Identifier: Apache-2.0
// Finds CUDA's compiler, its headers and CUPTI on this host.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tune::cuda {

struct Toolkit {
  std::string root;
  std::string include_dir;                // holds cuda_bf16.h
  std::string cccl_dir;                   // holds cuda/std and cub; empty: there is none
  std::string cccl_version;               // "3.0.1"
  std::vector<std::string> library_dirs;  // hold libnvrtc.so.* and libcupti.so.*
};

// The first of these that has NVRTC: $TUNE_CUDA_PATH, `cuda` beside the executable's own folder,
// /usr/local/cuda, and NVIDIA's wheels in the project's .venv. A set TUNE_CUDA_PATH that has none
// is an error. FAILED_PRECONDITION says where it looked and what to install.
absl::StatusOr<Toolkit> FindToolkit();

// Searches only these roots.
absl::StatusOr<Toolkit> FindToolkitIn(const std::vector<std::string>& roots);

}  // namespace tune::cuda
