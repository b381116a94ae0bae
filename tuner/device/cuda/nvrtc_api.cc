// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/nvrtc_api.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::cuda {
namespace {

absl::Status FindAll(void* library, const std::string& remedy, NvrtcApi& api) {
  TUNE_NVRTC_FUNCTIONS(TUNE_FUNCTION_FIND)
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NvrtcApi> NvrtcApi::Load(const Toolkit& toolkit) {
  const std::string remedy =
      "install a CUDA toolkit of 12.8 or later, or pip install nvidia-cuda-nvrtc==13.0.*";
  ASSIGN_OR_RETURN(void* library,
                   OpenLibrary({"libnvrtc.so.13", "libnvrtc.so.12"}, toolkit.library_dirs, remedy));
  NvrtcApi api;
  RETURN_IF_ERROR(FindAll(library, remedy, api));
  // NVRTC opens its builtins by bare name at the first compile and has no run path of its own, so
  // they are opened here by path first. Both must be of one version.
  int major = 0;
  int minor = 0;
  api.nvrtcVersion(&major, &minor);
  ASSIGN_OR_RETURN(void* builtins,
                   OpenLibrary({absl::StrCat("libnvrtc-builtins.so.", major, ".", minor)},
                               toolkit.library_dirs, remedy));
  (void)builtins;
  return api;
}

}  // namespace tune::cuda
