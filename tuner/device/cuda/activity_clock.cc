// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/activity_clock.h"

#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "tuner/device/cuda/dynamic_library.h"
#include "tuner/status_macros.h"

#define TUNE_CUPTI_FUNCTIONS(X)        \
  X(cuptiActivityEnable)               \
  X(cuptiActivityEnableHWTrace)        \
  X(cuptiActivityFlushAll)             \
  X(cuptiActivityGetNextRecord)        \
  X(cuptiActivityGetNumDroppedRecords) \
  X(cuptiActivityRegisterCallbacks)    \
  X(cuptiGetResultString)

namespace tune::cuda {
namespace {

struct CuptiApi {
  TUNE_CUPTI_FUNCTIONS(TUNE_FUNCTION_MEMBER)

  absl::Status Check(CUptiResult result, const char* call) const {
    if (result == CUPTI_SUCCESS) return absl::OkStatus();
    const char* text = nullptr;
    cuptiGetResultString(result, &text);
    return absl::FailedPreconditionError(
        absl::StrCat(call, ": ", text == nullptr ? "unknown CUPTI error" : text));
  }
};

absl::Status FindAll(void* library, const std::string& remedy, CuptiApi& api) {
  TUNE_CUPTI_FUNCTIONS(TUNE_FUNCTION_FIND)
  return absl::OkStatus();
}

// The fields read here lie at the same place in every later version of the record.
using KernelRecord = CUpti_ActivityKernel9;

// Small, because CUPTI clears a buffer in the launching thread before it uses it; about a thousand
// records, so that one batch of samples seldom fills it.
constexpr size_t kBufferBytes = 256 * 1024;
constexpr size_t kBufferAlignment = 8;

struct Interval {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
};

// What CUPTI's callbacks, which carry no user data, work on. Lives as long as the process.
struct Recording {
  CuptiApi cupti;
  std::mutex mutex;
  std::vector<uint8_t*> free_buffers;  // guarded by mutex
  std::vector<Interval> intervals;     // guarded by mutex
  bool usable = false;
  ActivityClock clock;
};

Recording* recording = nullptr;

void CUPTIAPI RequestBuffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  std::lock_guard<std::mutex> lock(recording->mutex);
  if (recording->free_buffers.empty()) {
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  } else {
    *buffer = recording->free_buffers.back();
    recording->free_buffers.pop_back();
  }
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  std::lock_guard<std::mutex> lock(recording->mutex);
  CUpti_Activity* activity = nullptr;
  while (valid_bytes > 0 && recording->cupti.cuptiActivityGetNextRecord(
                                buffer, valid_bytes, &activity) == CUPTI_SUCCESS) {
    if (activity->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
        activity->kind != CUPTI_ACTIVITY_KIND_KERNEL) {
      continue;
    }
    const auto* kernel = reinterpret_cast<const KernelRecord*>(activity);
    const bool is_harness =
        kernel->name != nullptr &&
        std::strncmp(kernel->name, kHarnessPrefix, sizeof(kHarnessPrefix) - 1) == 0;
    if (!is_harness) recording->intervals.push_back({kernel->start, kernel->end});
  }
  recording->free_buffers.push_back(buffer);
}

}  // namespace

absl::StatusOr<ActivityClock*> ActivityClock::Start(const Toolkit& toolkit, bool hardware_trace) {
  if (recording != nullptr && recording->usable) return &recording->clock;
  if (recording != nullptr) return absl::FailedPreconditionError("CUPTI did not start before");
  const std::string remedy =
      "install a CUDA toolkit of 12.8 or later with CUPTI, or pip install "
      "nvidia-cuda-cupti==13.0.*";
  ASSIGN_OR_RETURN(void* library,
                   OpenLibrary({"libcupti.so.13", "libcupti.so.12"}, toolkit.library_dirs, remedy));
  auto* started = new Recording;
  RETURN_IF_ERROR(FindAll(library, remedy, started->cupti));
  const CuptiApi& cupti = started->cupti;
  // Refused under MPS, MIG and virtual GPUs, where the instrumented way still works.
  if (hardware_trace) cupti.cuptiActivityEnableHWTrace(1);
  recording = started;  // the callbacks may come as soon as they are registered
  absl::Status status = cupti.Check(cupti.cuptiActivityRegisterCallbacks(RequestBuffer, TakeBuffer),
                                    "cuptiActivityRegisterCallbacks");
  if (status.ok()) {
    status = cupti.Check(cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
                         "cuptiActivityEnable");
  }
  if (!status.ok()) return status;
  recording->usable = true;
  return &recording->clock;
}

void ActivityClock::Clear() {
  recording->cupti.cuptiActivityFlushAll(0);
  size_t dropped = 0;
  recording->cupti.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  std::lock_guard<std::mutex> lock(recording->mutex);
  recording->intervals.clear();
}

absl::StatusOr<std::vector<double>> ActivityClock::Collect(size_t count) {
  const CuptiApi& cupti = recording->cupti;
  // A plain flush leaves out buffers with a record still incomplete; the forced one is the last
  // resort, since what it hands over may lack its times.
  for (uint32_t flag : {0u, 0u, static_cast<uint32_t>(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)}) {
    RETURN_IF_ERROR(cupti.Check(cupti.cuptiActivityFlushAll(flag), "cuptiActivityFlushAll"));
    std::lock_guard<std::mutex> lock(recording->mutex);
    if (recording->intervals.size() >= count) break;
  }
  size_t dropped = 0;
  RETURN_IF_ERROR(cupti.Check(cupti.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped),
                              "cuptiActivityGetNumDroppedRecords"));
  std::vector<Interval> intervals;
  {
    std::lock_guard<std::mutex> lock(recording->mutex);
    intervals.swap(recording->intervals);
  }
  if (dropped != 0 || intervals.size() != count) {
    return absl::DataLossError(absl::StrCat("CUPTI gave ", intervals.size(), " of ", count,
                                            " kernel records and dropped ", dropped));
  }
  // Buffers come in any order; kernels of one stream ran one after the other.
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
  std::vector<double> durations_ns;
  for (const Interval& interval : intervals) {
    if (interval.begin_ns == 0 || interval.end_ns <= interval.begin_ns) {
      return absl::DataLossError("CUPTI gave a kernel record without times");
    }
    durations_ns.push_back(static_cast<double>(interval.end_ns - interval.begin_ns));
  }
  return durations_ns;
}

}  // namespace tune::cuda
