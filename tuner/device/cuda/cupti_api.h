// SPDX-License-Identifier: Apache-2.0
// CUPTI's profiling functions, opened at run time. The activity API of activity_clock.h and the
// range profiler must not be used in one process.
#pragma once

#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cuda/dynamic_library.h"
#include "tuner/device/cuda/toolkit.h"

#define TUNE_CUPTI_PROFILER_FUNCTIONS(X)          \
  X(cuptiDeviceGetChipName)                       \
  X(cuptiGetResultString)                         \
  X(cuptiProfilerDeInitialize)                    \
  X(cuptiProfilerDeviceSupported)                 \
  X(cuptiProfilerGetCounterAvailability)          \
  X(cuptiProfilerHostConfigAddMetrics)            \
  X(cuptiProfilerHostDeinitialize)                \
  X(cuptiProfilerHostEvaluateToGpuValues)         \
  X(cuptiProfilerHostGetBaseMetrics)              \
  X(cuptiProfilerHostGetConfigImage)              \
  X(cuptiProfilerHostGetConfigImageSize)          \
  X(cuptiProfilerHostGetNumOfPasses)              \
  X(cuptiProfilerHostGetSupportedChips)           \
  X(cuptiProfilerHostInitialize)                  \
  X(cuptiProfilerInitialize)                      \
  X(cuptiRangeProfilerCounterDataImageInitialize) \
  X(cuptiRangeProfilerDecodeData)                 \
  X(cuptiRangeProfilerDisable)                    \
  X(cuptiRangeProfilerEnable)                     \
  X(cuptiRangeProfilerGetCounterDataInfo)         \
  X(cuptiRangeProfilerGetCounterDataSize)         \
  X(cuptiRangeProfilerPopRange)                   \
  X(cuptiRangeProfilerPushRange)                  \
  X(cuptiRangeProfilerSetConfig)                  \
  X(cuptiRangeProfilerStart)                      \
  X(cuptiRangeProfilerStop)

namespace tune::cuda {

struct CuptiProfilerApi {
  TUNE_CUPTI_PROFILER_FUNCTIONS(TUNE_FUNCTION_MEMBER)

  static absl::StatusOr<CuptiProfilerApi> Load(const Toolkit& toolkit);

  // FAILED_PRECONDITION for what stands against counting on this host, with what to do about it;
  // else INTERNAL.
  absl::Status Check(CUptiResult result, const char* call) const;
};

// Declares a parameter struct of CUPTI: zeroed, with the size that this program knows.
#define TUNE_CUPTI_PARAMS(type, name) \
  type name = {};                     \
  name.structSize = type##_STRUCT_SIZE

}  // namespace tune::cuda
