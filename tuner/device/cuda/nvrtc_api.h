// SPDX-License-Identifier: Apache-2.0
// NVRTC's functions, opened at run time. Never touches the driver.
#pragma once

#include <nvrtc.h>

#include "absl/status/statusor.h"
#include "tuner/device/cuda/dynamic_library.h"
#include "tuner/device/cuda/toolkit.h"

#define TUNE_NVRTC_FUNCTIONS(X) \
  X(nvrtcAddNameExpression)     \
  X(nvrtcCompileProgram)        \
  X(nvrtcCreateProgram)         \
  X(nvrtcDestroyProgram)        \
  X(nvrtcGetCUBIN)              \
  X(nvrtcGetCUBINSize)          \
  X(nvrtcGetErrorString)        \
  X(nvrtcGetLoweredName)        \
  X(nvrtcGetNumSupportedArchs)  \
  X(nvrtcGetPTX)                \
  X(nvrtcGetPTXSize)            \
  X(nvrtcGetProgramLog)         \
  X(nvrtcGetProgramLogSize)     \
  X(nvrtcGetSupportedArchs)     \
  X(nvrtcVersion)

namespace tune::cuda {

struct NvrtcApi {
  TUNE_NVRTC_FUNCTIONS(TUNE_FUNCTION_MEMBER)

  static absl::StatusOr<NvrtcApi> Load(const Toolkit& toolkit);
};

}  // namespace tune::cuda
