// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/telemetry.h"

#include "base/status_macros.h"
#include "tuner/device/cuda/dynamic_library.h"

// NVML's header is in the toolkit but not in the wheels; these few declarations are all we need
// (docs.nvidia.com/deploy/nvml-api).
extern "C" {
struct nvmlDevice_st;
using nvmlDevice_t = nvmlDevice_st*;
int nvmlInit_v2();
int nvmlSystemGetDriverVersion(char* version, unsigned length);
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci_bus_id, nvmlDevice_t* device);
int nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned* clock_mhz);
int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* power_mw);
int nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned* temperature_c);
// Renamed to ...ClocksEventReasons; drivers have both names.
int nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count, void* processes);
}

#define TUNE_NVML_FUNCTIONS(X)                 \
  X(nvmlInit_v2)                               \
  X(nvmlSystemGetDriverVersion)                \
  X(nvmlDeviceGetHandleByPciBusId_v2)          \
  X(nvmlDeviceGetClockInfo)                    \
  X(nvmlDeviceGetPowerUsage)                   \
  X(nvmlDeviceGetTemperature)                  \
  X(nvmlDeviceGetCurrentClocksThrottleReasons) \
  X(nvmlDeviceGetComputeRunningProcesses_v3)

namespace tune::cuda {
namespace {

constexpr int kNvmlSuccess = 0;  // NVML_SUCCESS
constexpr int kTooSmall = 7;     // NVML_ERROR_INSUFFICIENT_SIZE
constexpr int kClockSm = 1;      // NVML_CLOCK_SM
constexpr int kClockMemory = 2;  // NVML_CLOCK_MEM
constexpr int kSensorGpu = 0;    // NVML_TEMPERATURE_GPU
constexpr int kReadShare = 20;   // one part in twenty of the time

}  // namespace

struct NvmlApi {
  TUNE_NVML_FUNCTIONS(TUNE_FUNCTION_MEMBER)
};

namespace {

absl::Status FindAll(void* library, const std::string& remedy, NvmlApi& api) {
  TUNE_NVML_FUNCTIONS(TUNE_FUNCTION_FIND)
  return absl::OkStatus();
}

}  // namespace

TelemetrySource::TelemetrySource() = default;
TelemetrySource::~TelemetrySource() = default;

std::unique_ptr<TelemetrySource> TelemetrySource::Open(const std::string& pci_bus_id) {
  std::unique_ptr<TelemetrySource> source(new TelemetrySource);
  absl::StatusOr<void*> library = OpenLibrary({"libnvidia-ml.so.1"}, {}, "");
  if (!library.ok()) return source;
  auto api = std::make_unique<NvmlApi>();
  if (!FindAll(*library, "", *api).ok() || api->nvmlInit_v2() != kNvmlSuccess) return source;
  char version[96] = {};
  if (api->nvmlSystemGetDriverVersion(version, sizeof(version)) == kNvmlSuccess) {
    source->driver_version_ = version;
  }
  nvmlDevice_t device = nullptr;
  if (api->nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.c_str(), &device) != kNvmlSuccess)
    return source;
  source->device_ = device;
  source->nvml_ = std::move(api);
  return source;
}

Telemetry TelemetrySource::Read() {
  const auto begin = std::chrono::steady_clock::now();
  if (nvml_ == nullptr || begin < next_read_) return last_;
  auto* device = static_cast<nvmlDevice_t>(device_);
  Telemetry now;
  unsigned value = 0;
  if (nvml_->nvmlDeviceGetClockInfo(device, kClockSm, &value) == kNvmlSuccess)
    now.sm_clock_mhz = value;
  if (nvml_->nvmlDeviceGetClockInfo(device, kClockMemory, &value) == kNvmlSuccess) {
    now.memory_clock_mhz = value;
  }
  if (nvml_->nvmlDeviceGetPowerUsage(device, &value) == kNvmlSuccess) now.power_mw = value;
  if (nvml_->nvmlDeviceGetTemperature(device, kSensorGpu, &value) == kNvmlSuccess) {
    now.temperature_c = value;
  }
  unsigned long long reasons = 0;
  if (nvml_->nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons) == kNvmlSuccess) {
    now.throttle_reasons = reasons;
  }
  // With no room for the processes NVML only counts them.
  unsigned processes = 0;
  const int counted = nvml_->nvmlDeviceGetComputeRunningProcesses_v3(device, &processes, nullptr);
  if (counted == kNvmlSuccess || counted == kTooSmall) now.compute_processes = processes;
  const auto end = std::chrono::steady_clock::now();
  next_read_ = end + (end - begin) * kReadShare;
  last_ = now;
  return now;
}

}  // namespace tune::cuda
