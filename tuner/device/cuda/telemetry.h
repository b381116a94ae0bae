// SPDX-License-Identifier: Apache-2.0
// Clocks, power and temperature of a GPU, from NVML.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tuner/trial.h"

namespace tune::cuda {

struct NvmlApi;

// Not thread-safe. Without NVML every figure is zero: nothing else depends on it.
class TelemetrySource {
 public:
  static std::unique_ptr<TelemetrySource> Open(const std::string& pci_bus_id);
  ~TelemetrySource();

  // The state now. Some drivers take milliseconds for it, so after a slow answer the same is given
  // again for a while: never more than a twentieth of the time goes into asking.
  Telemetry Read();

  // "580.159.04"; empty without NVML.
  const std::string& driver_version() const { return driver_version_; }

 private:
  TelemetrySource();

  std::unique_ptr<NvmlApi> nvml_;
  void* device_ = nullptr;
  std::string driver_version_;
  Telemetry last_;
  std::chrono::steady_clock::time_point next_read_;
};

}  // namespace tune::cuda
