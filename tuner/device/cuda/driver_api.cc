// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/driver_api.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::cuda {
namespace {

absl::Status FindAll(void* library, const std::string& remedy, DriverApi& api) {
  TUNE_DRIVER_FUNCTIONS(TUNE_FUNCTION_FIND)
  return absl::OkStatus();
}

// Errors after which a context answers every call with the same error: a kernel did it.
bool IsFault(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

bool IsBroken(CUresult result) {
  switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_EXTERNAL_DEVICE:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<DriverApi> DriverApi::Load() {
  const std::string remedy =
      "install NVIDIA's driver, 570 or later for CUDA 12.8 and 580 or later for CUDA 13, or, in a "
      "container, start it with access to the GPU";
  ASSIGN_OR_RETURN(void* library, OpenLibrary({"libcuda.so.1"}, {}, remedy));
  DriverApi api;
  RETURN_IF_ERROR(FindAll(library, remedy, api));
  // Loading a kernel lazily, at its first launch, would wait for the kernels before it.
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  if (CUresult result = api.cuInit(0); result != CUDA_SUCCESS) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuInit: ", api.ErrorText(result), "; is there a GPU that nvidia-smi shows?"));
  }
  return api;
}

std::string DriverApi::ErrorText(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return absl::StrCat("CUDA error ", static_cast<int>(result));
  }
  cuGetErrorString(result, &text);
  return absl::StrCat(name, " (", text == nullptr ? "" : text, ")");
}

absl::Status DriverApi::Check(CUresult result, absl::string_view call) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  std::string message = absl::StrCat(call, ": ", ErrorText(result));
  if (IsFault(result)) return absl::AbortedError(message);
  if (IsBroken(result)) return absl::UnavailableError(message);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

}  // namespace tune::cuda
