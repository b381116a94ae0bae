// SPDX-License-Identifier: Apache-2.0
// The driver's functions, opened at run time.
#pragma once

#include <cuda.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/device/cuda/dynamic_library.h"

#define TUNE_DRIVER_FUNCTIONS(X)                 \
  X(cuCtxResetPersistingL2Cache)                 \
  X(cuCtxSetCurrent)                             \
  X(cuDeviceGet)                                 \
  X(cuDeviceGetAttribute)                        \
  X(cuDeviceGetCount)                            \
  X(cuDeviceGetName)                             \
  X(cuDeviceGetPCIBusId)                         \
  X(cuDeviceGetUuid)                             \
  X(cuDevicePrimaryCtxRetain)                    \
  X(cuDeviceTotalMem)                            \
  X(cuDriverGetVersion)                          \
  X(cuEventCreate)                               \
  X(cuEventElapsedTime)                          \
  X(cuEventRecord)                               \
  X(cuFuncGetAttribute)                          \
  X(cuFuncGetParamInfo)                          \
  X(cuFuncSetAttribute)                          \
  X(cuGetErrorName)                              \
  X(cuGetErrorString)                            \
  X(cuGraphDestroy)                              \
  X(cuGraphExecDestroy)                          \
  X(cuGraphInstantiateWithFlags)                 \
  X(cuGraphLaunch)                               \
  X(cuInit)                                      \
  X(cuLaunchKernelEx)                            \
  X(cuMemAlloc)                                  \
  X(cuMemAllocHost)                              \
  X(cuMemFree)                                   \
  X(cuMemFreeHost)                               \
  X(cuMemGetInfo)                                \
  X(cuMemcpyDtoDAsync)                           \
  X(cuMemcpyDtoHAsync)                           \
  X(cuMemcpyHtoDAsync)                           \
  X(cuMemsetD8Async)                             \
  X(cuModuleGetFunction)                         \
  X(cuModuleGetGlobal)                           \
  X(cuModuleLoadData)                            \
  X(cuModuleLoadDataEx)                          \
  X(cuModuleUnload)                              \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuOccupancyMaxActiveClusters)                \
  X(cuStreamBeginCapture)                        \
  X(cuStreamCreate)                              \
  X(cuStreamEndCapture)                          \
  X(cuStreamSynchronize)                         \
  X(cuTensorMapEncodeTiled)

namespace tune::cuda {

struct DriverApi {
  TUNE_DRIVER_FUNCTIONS(TUNE_FUNCTION_MEMBER)

  // Opens libcuda and initialises it. FAILED_PRECONDITION if there is no driver or no device, with
  // what to do.
  static absl::StatusOr<DriverApi> Load();

  // The driver's own words: "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access ...)".
  std::string ErrorText(CUresult result) const;

  // "<call>: <error text>", with a code for the cause:
  //   ABORTED             the kernel that ran; the context is lost
  //   UNAVAILABLE         the hardware or the driver
  //   RESOURCE_EXHAUSTED  no device memory left
  //   INTERNAL            anything else
  absl::Status Check(CUresult result, absl::string_view call) const;
};

}  // namespace tune::cuda
