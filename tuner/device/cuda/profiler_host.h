// SPDX-License-Identifier: Apache-2.0
// CUPTI's host side: which counters a chip has, how they are scheduled into passes, and what the
// collected data mean. Needs no GPU and no driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/cuda/cupti_api.h"

namespace tune::cuda {

// Counters scheduled for a chip. Movable; not thread-safe.
class CounterConfig {
 public:
  using LeftOut = std::vector<std::pair<std::string, std::string>>;

  ~CounterConfig();
  CounterConfig(CounterConfig&& other) noexcept;
  CounterConfig& operator=(CounterConfig&&) = delete;

  const std::vector<std::string>& metrics() const { return metrics_; }
  // The requested metrics that could not be scheduled, with the reason.
  const LeftOut& left_out() const { return left_out_; }
  const std::vector<uint8_t>& image() const { return image_; }
  int pass_count() const { return pass_count_; }
  // The metrics as CUPTI wants a list of them.
  std::vector<const char*> Names() const;

  // Values of metrics(), in that order, of a range in decoded counter data.
  absl::StatusOr<std::vector<double>> Evaluate(const std::vector<uint8_t>& counter_data,
                                               size_t range) const;

 private:
  friend class ProfilerHost;
  explicit CounterConfig(const CuptiProfilerApi& cupti) : cupti_(cupti) {}

  CuptiProfilerApi cupti_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  std::vector<std::string> metrics_;
  LeftOut left_out_;
  std::vector<uint8_t> image_;
  int pass_count_ = 0;
};

// Builds counter configs for a chip.
class ProfilerHost {
 public:
  // The chips that the library knows.
  static absl::StatusOr<std::vector<std::string>> Chips(const CuptiProfilerApi& cupti);

  // `availability` is what the device says it can count; empty without a device.
  // FAILED_PRECONDITION for a chip that the library does not know: another chip's names would give
  // another chip's numbers.
  static absl::StatusOr<ProfilerHost> Create(const CuptiProfilerApi& cupti, std::string chip,
                                             std::vector<uint8_t> availability);

  const std::string& chip() const { return chip_; }
  bool Has(const std::string& base_metric) const { return bases_.contains(base_metric); }

  // Schedules metrics with their rollups ("dram__bytes_read.sum"). One that cannot be scheduled is
  // left out and the others are kept; FAILED_PRECONDITION if none is left, or they take more than
  // `passes_max` passes.
  absl::StatusOr<CounterConfig> Configure(const std::vector<std::string>& metrics,
                                          int passes_max) const;

 private:
  explicit ProfilerHost(const CuptiProfilerApi& cupti) : cupti_(cupti) {}
  absl::StatusOr<CUpti_Profiler_Host_Object*> NewHostObject() const;
  absl::Status ReadBases();
  using LeftOut = CounterConfig::LeftOut;
  // Returns the metrics that can be scheduled.
  std::vector<std::string> Schedulable(const std::vector<std::string>& metrics,
                                       LeftOut& left_out) const;
  // A config with all of the metrics, or the status of the first call that refused them.
  absl::StatusOr<CounterConfig> TryAdd(const std::vector<std::string>& metrics) const;

  CuptiProfilerApi cupti_;
  std::string chip_;
  std::vector<uint8_t> availability_;
  std::set<std::string> bases_;
};

}  // namespace tune::cuda
