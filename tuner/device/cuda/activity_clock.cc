// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/activity_clock.h"

#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "tuner/device/cuda/dynamic_library.h"

#define TUNE_CUPTI_FUNCTIONS(X)        \
  X(cuptiActivityDisable)              \
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
using MemsetRecord = CUpti_ActivityMemset4;

// Small, because CUPTI clears a buffer in the launching thread before it uses it; about a thousand
// records, so that one batch of samples seldom fills it.
constexpr size_t kBufferBytes = 256 * 1024;
constexpr size_t kBufferAlignment = 8;

// The state of CUPTI's callbacks, which carry no user data. It lives as long as the process.
struct Recording {
  CuptiApi cupti;
  Mutex mutex;
  std::vector<uint8_t*> free_buffers ABSL_GUARDED_BY(mutex);
  std::vector<ActivityRecord> records ABSL_GUARDED_BY(mutex);
  bool memsets = false;
  bool usable = false;
  ActivityClock clock;
};

Recording* recording = nullptr;

void CUPTIAPI RequestBuffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  MutexLock lock(recording->mutex);
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
  MutexLock lock(recording->mutex);
  CUpti_Activity* activity = nullptr;
  while (valid_bytes > 0 && recording->cupti.cuptiActivityGetNextRecord(
                                buffer, valid_bytes, &activity) == CUPTI_SUCCESS) {
    if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const auto* memset = reinterpret_cast<const MemsetRecord*>(activity);
      recording->records.push_back({memset->start, memset->end, /*memset=*/true});
      continue;
    }
    if (activity->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
        activity->kind != CUPTI_ACTIVITY_KIND_KERNEL) {
      continue;
    }
    const auto* kernel = reinterpret_cast<const KernelRecord*>(activity);
    const bool is_harness =
        kernel->name != nullptr &&
        std::strncmp(kernel->name, kHarnessPrefix, sizeof(kHarnessPrefix) - 1) == 0;
    if (!is_harness) recording->records.push_back({kernel->start, kernel->end});
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

absl::Status ActivityClock::Clear(bool memsets) {
  const CuptiApi& cupti = recording->cupti;
  if (memsets != recording->memsets) {
    RETURN_IF_ERROR(cupti.Check(memsets ? cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET)
                                        : cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMSET),
                                "recording memsets by CUPTI"));
    recording->memsets = memsets;
  }
  cupti.cuptiActivityFlushAll(0);
  size_t dropped = 0;
  cupti.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  MutexLock lock(recording->mutex);
  recording->records.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> ActivityClock::Collect(size_t count, const SampleShape& shape) {
  const CuptiApi& cupti = recording->cupti;
  const size_t wanted = count * shape.kernels;
  // A plain flush holds back a buffer while a record in it is incomplete. A forced one does not, so
  // a record that it gives may lack its times: it comes last.
  for (uint32_t flag : {0u, 0u, static_cast<uint32_t>(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)}) {
    RETURN_IF_ERROR(cupti.Check(cupti.cuptiActivityFlushAll(flag), "cuptiActivityFlushAll"));
    MutexLock lock(recording->mutex);
    const auto kernels = std::count_if(recording->records.begin(), recording->records.end(),
                                       [](const ActivityRecord& record) { return !record.memset; });
    if (static_cast<size_t>(kernels) >= wanted) break;
  }
  size_t dropped = 0;
  RETURN_IF_ERROR(cupti.Check(cupti.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped),
                              "cuptiActivityGetNumDroppedRecords"));
  std::vector<ActivityRecord> records;
  {
    MutexLock lock(recording->mutex);
    records.swap(recording->records);
  }
  if (dropped != 0) {
    return absl::DataLossError(absl::StrCat("CUPTI dropped ", dropped, " of its records"));
  }
  return SampleDurations(std::move(records), count, shape);
}

// A sample is so many kernels, one after the other. Memsets come before it: the harness's first,
// then the program's own, which belong to the sample. Memsets between its kernels are within it.
absl::StatusOr<std::vector<double>> SampleDurations(std::vector<ActivityRecord> records,
                                                    size_t count, const SampleShape& shape) {
  // Buffers come in any order; what is in one stream ran one after the other.
  std::sort(records.begin(), records.end(), [](const ActivityRecord& a, const ActivityRecord& b) {
    return a.begin_ns < b.begin_ns;
  });
  std::vector<size_t> kernels;
  for (size_t i = 0; i < records.size(); ++i) {
    if (!records[i].memset) kernels.push_back(i);
  }
  if (kernels.size() != count * shape.kernels) {
    return absl::DataLossError(absl::StrCat("CUPTI gave ", kernels.size(), " of ",
                                            count * shape.kernels, " kernel records"));
  }
  std::vector<double> durations_ns;
  size_t next = 0;  // the record after the last sample's
  for (size_t i = 0; i < kernels.size(); i += shape.kernels) {
    const size_t last = kernels[i + shape.kernels - 1];
    if (kernels[i] < next + shape.leading_memsets) {
      return absl::DataLossError("CUPTI gave too few memset records");
    }
    const size_t first = kernels[i] - shape.leading_memsets;
    uint64_t end_ns = 0;
    for (size_t k = first; k <= last; ++k) {
      if (records[k].begin_ns == 0 || records[k].end_ns <= records[k].begin_ns) {
        return absl::DataLossError("CUPTI gave a record without times");
      }
      end_ns = std::max(end_ns, records[k].end_ns);
    }
    durations_ns.push_back(static_cast<double>(end_ns - records[first].begin_ns));
    next = last + 1;
  }
  return durations_ns;
}

}  // namespace tune::cuda
