// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/toolkit.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tune::cuda {
namespace {

namespace fs = std::filesystem;

bool HasNvrtc(const fs::path& dir) {
  std::error_code error;
  return fs::exists(dir / "libnvrtc.so.13", error) || fs::exists(dir / "libnvrtc.so.12", error);
}

// <venv>/lib/python3*/site-packages/nvidia/cu13, where pip puts NVIDIA's wheels.
std::vector<std::string> WheelRoots(const fs::path& venv) {
  std::vector<std::string> roots;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(venv / "lib", error)) {
    fs::path root = entry.path() / "site-packages" / "nvidia" / "cu13";
    if (absl::StartsWith(entry.path().filename().string(), "python3") && fs::exists(root, error)) {
      roots.push_back(root.string());
    }
  }
  std::sort(roots.rbegin(), roots.rend());
  return roots;
}

}  // namespace

absl::StatusOr<Toolkit> FindToolkitIn(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    Toolkit toolkit;
    toolkit.root = root;
    toolkit.include_dir = (fs::path(root) / "include").string();
    bool has_nvrtc = false;
    for (const char* sub : {"lib64", "lib", "targets/x86_64-linux/lib", "extras/CUPTI/lib64"}) {
      fs::path dir = fs::path(root) / sub;
      std::error_code error;
      if (!fs::is_directory(dir, error)) continue;
      has_nvrtc = has_nvrtc || HasNvrtc(dir);
      toolkit.library_dirs.push_back(dir.string());
    }
    std::error_code error;
    if (has_nvrtc && fs::exists(fs::path(toolkit.include_dir) / "cuda_bf16.h", error)) {
      return toolkit;
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no CUDA compiler: found neither libnvrtc.so.13 nor libnvrtc.so.12 with cuda_bf16.h under ",
      absl::StrJoin(roots, ", "),
      "; install a CUDA toolkit of 12.8 or later, or NVIDIA's wheels (pip install "
      "nvidia-cuda-nvrtc==13.0.* nvidia-cuda-cupti==13.0.* nvidia-cuda-runtime==13.0.* "
      "nvidia-cuda-crt==13.0.*), or set TUNE_CUDA_PATH"));
}

absl::StatusOr<Toolkit> FindToolkit() {
  if (const char* path = std::getenv("TUNE_CUDA_PATH"); path != nullptr && *path != '\0') {
    return FindToolkitIn({path});
  }
  std::vector<std::string> roots;
  std::error_code error;
  fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) roots.push_back((executable.parent_path().parent_path() / "cuda").string());
  roots.push_back("/usr/local/cuda");
  for (std::string& root : WheelRoots(TUNE_VENV_DIR)) roots.push_back(std::move(root));
  return FindToolkitIn(roots);
}

}  // namespace tune::cuda
