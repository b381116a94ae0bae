// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/cupti_api.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::cuda {
namespace {

absl::Status FindAll(void* library, const std::string& remedy, CuptiProfilerApi& api) {
  TUNE_CUPTI_PROFILER_FUNCTIONS(TUNE_FUNCTION_FIND)
  return absl::OkStatus();
}

// The reason why this host denies counting, with what to do; null for other errors.
const char* Obstacle(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "the driver reserves the counters for administrators: run the daemon as root or with "
             "CAP_SYS_ADMIN (CAP_PERFMON from driver 565 on), or load the driver with "
             "NVreg_RestrictProfilingToAdminUsers=0";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "the hypervisor does not allow profiling of this virtual GPU: ask its administrator";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return "counters of a virtual GPU cannot be read";
    case CUPTI_ERROR_HARDWARE_BUSY:
      return "another profiler holds the counters: stop it, or pause DCGM with `dcgmi profpause`";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      return "another tool has hold of CUPTI in this process: run without Nsight or cuda-gdb";
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      return "confidential computing does not allow profiling";
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
      return "counters of a part of a GPU (MIG) cannot be read";
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
      return "a mining processor has no counters to read";
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
      return "counters cannot be read under SLI";
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
      return "counters cannot be read under WSL";
    case CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_COMPATIBLE:
      return "this GPU, or its driver, is too old for CUPTI's range profiler: compute capability "
             "7.5 or later and driver 570 or later are needed";
    default:
      return nullptr;
  }
}

}  // namespace

absl::StatusOr<CuptiProfilerApi> CuptiProfilerApi::Load(const Toolkit& toolkit) {
  const std::string remedy =
      "install a CUDA toolkit of 12.8 or later with CUPTI, or pip install "
      "nvidia-cuda-cupti==13.0.*";
  ASSIGN_OR_RETURN(void* library,
                   OpenLibrary({"libcupti.so.13", "libcupti.so.12"}, toolkit.library_dirs, remedy));
  CuptiProfilerApi api;
  RETURN_IF_ERROR(FindAll(library, remedy, api));
  return api;
}

absl::Status CuptiProfilerApi::Check(CUptiResult result, const char* call) const {
  if (result == CUPTI_SUCCESS) return absl::OkStatus();
  if (const char* obstacle = Obstacle(result); obstacle != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(obstacle, " (", call, ", CUPTI error ", static_cast<int>(result), ")"));
  }
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  const std::string message = absl::StrCat(call, ": ", text == nullptr ? "CUPTI error" : text, " (",
                                           static_cast<int>(result), ")");
  return absl::InternalError(message);
}

}  // namespace tune::cuda
