// SPDX-License-Identifier: Apache-2.0
// Reads counters of what runs between two points of the stream, as often as they need: CUPTI's
// range profiler with a range of our own, replayed by us. CUPTI would replay a kernel by itself,
// but then it saves and restores all device memory; here the inputs are restored anyway.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/counters/counting.h"
#include "tuner/device/cuda/cupti_api.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/profiler_host.h"

namespace tune::cuda {

// Not thread-safe. One a process, and never in one that uses the activity API.
class RangeProfiler {
 public:
  // FAILED_PRECONDITION: this host does not let us count; the message says why and what to do.
  static absl::StatusOr<std::unique_ptr<RangeProfiler>> Open(const DeviceContext& context,
                                                             const Toolkit& toolkit);
  ~RangeProfiler();

  const ProfilerHost& host() const { return *host_; }

  // The launch to count, and its preparation, once for each pass. Both enqueue.
  struct Work {
    std::function<absl::Status()> prepare;
    std::function<absl::Status()> launch;
  };

  // Reads a config's counters once, in the order of config.metrics(). DATA_LOSS if CUPTI dropped
  // the range.
  absl::StatusOr<std::vector<double>> Read(const CounterConfig& config, const Work& work);

  // Several, as median and extremes.
  absl::StatusOr<std::vector<CounterReading>> ReadSeveral(const CounterConfig& config,
                                                          const Work& work, int readings);

 private:
  RangeProfiler(const DeviceContext& context, const CuptiProfilerApi& cupti)
      : context_(context), cupti_(cupti) {}
  absl::Status Initialise();
  absl::Status CheckSupported();
  absl::StatusOr<std::string> ChipName();
  absl::StatusOr<std::vector<uint8_t>> Availability();
  absl::Status Enable();
  void Disable();
  absl::StatusOr<std::vector<double>> ReadEnabled(const CounterConfig& config, const Work& work);
  absl::StatusOr<std::vector<uint8_t>> NewCounterData(const CounterConfig& config);
  absl::Status SetConfig(const CounterConfig& config, std::vector<uint8_t>& counter_data);
  // Runs one pass; true if it was the last.
  absl::StatusOr<bool> RunPass(const Work& work);
  absl::Status Decode(const std::vector<uint8_t>& counter_data);

  const DeviceContext& context_;
  const CuptiProfilerApi cupti_;
  bool initialised_ = false;
  CUpti_RangeProfiler_Object* range_profiler_ = nullptr;
  std::unique_ptr<ProfilerHost> host_;
};

}  // namespace tune::cuda
