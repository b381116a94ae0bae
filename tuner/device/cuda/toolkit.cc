// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/toolkit.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace tune::cuda {
namespace {

namespace fs = std::filesystem;

bool HasNvrtc(const fs::path& dir) {
  std::error_code error;
  return fs::exists(dir / "libnvrtc.so.13", error) || fs::exists(dir / "libnvrtc.so.12", error);
}

// NVIDIA's wheels beside the Python package that this program came with: site-packages/tunectl/bin.
std::string NeighbourRoot(const fs::path& executable) {
  const fs::path package = executable.parent_path().parent_path();
  std::error_code error;
  const fs::path root = package.parent_path() / "nvidia" / "cu13";
  return package.filename() == "tunectl" && fs::exists(root, error) ? root.string() : "";
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

// A folder of its own from CUDA 13 on, among the others before, and where pip put it for 12.
std::string FindCccl(const fs::path& include) {
  const fs::path wheels = include.parent_path().parent_path();
  std::error_code error;
  for (const fs::path& dir : {include / "cccl", include, wheels / "cuda_cccl" / "include"}) {
    if (fs::exists(dir / "cuda" / "std" / "type_traits", error)) return dir.string();
  }
  return "";
}

// The version in cuda/std/__cccl/version.h: "#define CCCL_VERSION 3000001" is "3.0.1".
std::string CcclVersion(const std::string& dir) {
  std::ifstream header(fs::path(dir) / "cuda" / "std" / "__cccl" / "version.h");
  for (std::string line; std::getline(header, line);) {
    absl::string_view rest = line;
    int64_t number = 0;
    if (!absl::ConsumePrefix(&rest, "#define CCCL_VERSION ") || !absl::SimpleAtoi(rest, &number)) {
      continue;
    }
    return absl::StrCat(number / 1000000, ".", number / 1000 % 1000, ".", number % 1000);
  }
  return "";
}

}  // namespace

absl::StatusOr<Toolkit> FindToolkitIn(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    Toolkit toolkit;
    toolkit.root = root;
    toolkit.include_dir = (fs::path(root) / "include").string();
    bool has_nvrtc = false;
    for (const char* sub : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib",
                            "extras/CUPTI/lib64"}) {
      fs::path dir = fs::path(root) / sub;
      std::error_code error;
      if (!fs::is_directory(dir, error)) continue;
      has_nvrtc = has_nvrtc || HasNvrtc(dir);
      toolkit.library_dirs.push_back(dir.string());
    }
    std::error_code error;
    if (has_nvrtc && fs::exists(fs::path(toolkit.include_dir) / "cuda_bf16.h", error)) {
      toolkit.cccl_dir = FindCccl(toolkit.include_dir);
      toolkit.cccl_version = CcclVersion(toolkit.cccl_dir);
      return toolkit;
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no CUDA compiler: found neither libnvrtc.so.13 nor libnvrtc.so.12 with cuda_bf16.h under ",
      absl::StrJoin(roots, ", "),
      "; install a CUDA toolkit of 12.8 or later, or NVIDIA's wheels (pip install "
      "nvidia-cuda-nvrtc==13.0.* nvidia-cuda-cupti==13.0.* nvidia-cuda-runtime==13.0.* "
      "nvidia-cuda-crt==13.0.* nvidia-cuda-cccl==13.0.*), or set TUNE_CUDA_PATH"));
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
  if (std::string root = NeighbourRoot(executable); !root.empty()) roots.push_back(std::move(root));
  for (std::string& root : WheelRoots(TUNE_VENV_DIR)) roots.push_back(std::move(root));
  return FindToolkitIn(roots);
}

}  // namespace tune::cuda
