// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/local_devices.h"

#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tuner/device_profile.h"

namespace tune::library {
namespace {

constexpr unsigned kTextBytes = 96;  // of NVML's names and UUIDs
constexpr int kFirstArchSpecific = 9;

struct Gpu {
  std::string name;
  std::string uuid;
  std::string target;
  std::string driver;
};

template <typename Function>
bool Load(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// The target that kernels are compiled for on a GPU of a compute capability.
std::string TargetOf(int major, int minor) {
  const char* suffix = major >= kFirstArchSpecific ? "a" : "";
  return major == 0 ? "" : absl::StrCat("sm_", major, minor, suffix);
}

// The GPUs that the driver tells of, whatever CUDA_VISIBLE_DEVICES says.
std::vector<Gpu> AllGpus() {
  if (access("/proc/driver/nvidia/version", F_OK) != 0) return {};
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml == nullptr) return {};
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*get_count)(unsigned*) = nullptr;
  int (*get_handle)(unsigned, void**) = nullptr;
  int (*get_name)(void*, char*, unsigned) = nullptr;
  int (*get_uuid)(void*, char*, unsigned) = nullptr;
  int (*get_capability)(void*, int*, int*) = nullptr;
  int (*get_driver)(char*, unsigned) = nullptr;
  const bool loaded = Load(nvml, "nvmlInit_v2", init) && Load(nvml, "nvmlShutdown", shutdown) &&
                      Load(nvml, "nvmlDeviceGetCount_v2", get_count) &&
                      Load(nvml, "nvmlDeviceGetHandleByIndex_v2", get_handle) &&
                      Load(nvml, "nvmlDeviceGetName", get_name) &&
                      Load(nvml, "nvmlDeviceGetUUID", get_uuid) &&
                      Load(nvml, "nvmlDeviceGetCudaComputeCapability", get_capability) &&
                      Load(nvml, "nvmlSystemGetDriverVersion", get_driver);
  if (!loaded || init() != 0) return {};
  std::vector<Gpu> gpus;
  unsigned count = 0;
  get_count(&count);
  std::array<char, kTextBytes> driver = {};
  get_driver(driver.data(), kTextBytes - 1);
  for (unsigned i = 0; i < count; ++i) {
    void* handle = nullptr;
    if (get_handle(i, &handle) != 0) continue;
    std::array<char, kTextBytes> name = {};
    std::array<char, kTextBytes> uuid = {};
    int major = 0;
    int minor = 0;
    get_name(handle, name.data(), kTextBytes - 1);
    get_uuid(handle, uuid.data(), kTextBytes - 1);
    get_capability(handle, &major, &minor);
    gpus.push_back({name.data(), uuid.data(), TargetOf(major, minor), driver.data()});
  }
  shutdown();
  return gpus;
}

// The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order.
std::vector<Gpu> Visible(const std::vector<Gpu>& all) {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) return all;
  std::vector<Gpu> visible;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    item = absl::StripAsciiWhitespace(item);
    size_t place = all.size();
    if (!absl::SimpleAtoi(item, &place) || place >= all.size()) {
      const auto fits = [&](const Gpu& gpu) {
        return !item.empty() && absl::StartsWith(gpu.uuid, item);
      };
      if (std::count_if(all.begin(), all.end(), fits) != 1) break;  // CUDA stops there, too
      place = static_cast<size_t>(std::find_if(all.begin(), all.end(), fits) - all.begin());
    }
    visible.push_back(all[place]);
  }
  return visible;
}

// The GPU of the thread's CUDA context, if the job opened the driver and has a current context. The
// loader is asked once: a child of a fork could find it in the middle of something.
std::optional<size_t> CurrentGpu() {
  using GetDevice = int(int*);
  static GetDevice* const kGetDevice = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    GetDevice* function = nullptr;
    if (driver != nullptr) Load(driver, "cuCtxGetDevice", function);
    return function;
  }();
  int device = 0;
  if (kGetDevice == nullptr || kGetDevice(&device) != 0 || device < 0) return std::nullopt;
  return static_cast<size_t>(device);
}

// The host's CPU, with the name that the daemon gives it.
LocalDevice Cpu() {
  utsname system = {};
  uname(&system);
  const DeviceProfile& host = *DeviceProfiles().back();
  const std::string family(host.family);
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view key = absl::StripAsciiWhitespace(entry.first);
    const std::string name =
        absl::StrJoin(absl::StrSplit(entry.second, absl::ByAnyChar(" \t"), absl::SkipEmpty()), " ");
    if ((key == "model name" || key == "Model" || key == "Hardware") && !name.empty()) {
      return {family, absl::StrCat(family, ":", name), host.common_targets.front(), system.release};
    }
  }
  return {family, absl::StrCat(family, ":", system.machine), host.common_targets.front(),
          system.release};
}

// The hardware does not change while the process runs.
const std::vector<Gpu>& Gpus() {
  static const auto* const kGpus = new std::vector<Gpu>(Visible(AllGpus()));
  return *kGpus;
}

}  // namespace

std::vector<LocalDevice> LocalDevices() {
  static const auto* const kCpu = new LocalDevice(Cpu());
  std::vector<LocalDevice> devices;
  const std::vector<Gpu>& gpus = Gpus();
  for (size_t i = 0; i < gpus.size(); ++i) {
    devices.push_back(
        {DeviceIdOf(static_cast<int>(i)), gpus[i].name, gpus[i].target, gpus[i].driver});
  }
  const std::optional<size_t> current = CurrentGpu();
  if (current.has_value() && *current < devices.size()) {
    std::rotate(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(*current),
                devices.begin() + static_cast<std::ptrdiff_t>(*current) + 1);
  }
  devices.push_back(*kCpu);
  return devices;
}

}  // namespace tune::library
