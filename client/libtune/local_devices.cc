// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/local_devices.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tuner/device_profile.h"
#include "tuner/gpu_part.h"

namespace tune::library {
namespace {

constexpr unsigned kTextBytes = 96;  // of NVML's names and UUIDs
constexpr int kFirstArchSpecific = 9;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

struct Gpu {
  std::string name;
  std::string uuid;
  std::string target;
  std::string driver;

  friend bool operator==(const Gpu& a, const Gpu& b) {
    return a.name == b.name && a.target == b.target;
  }
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

// nvmlDeviceAttributes_t.
struct SliceParts {
  unsigned sm_count = 0;
  unsigned unused[7] = {};  // engines and slices
  unsigned long long memory_mib = 0;
};

// NVIDIA's management library, which tells of GPUs without making a CUDA context.
class Nvml {
 public:
  ~Nvml() {
    if (is_open_) shutdown_();
  }

  // The GPUs that the driver tells of, whatever CUDA_VISIBLE_DEVICES says.
  std::vector<Gpu> AllGpus() {
    if (!Open()) return {};
    unsigned count = 0;
    get_count_(&count);
    std::array<char, kTextBytes> driver = {};
    get_driver_(driver.data(), kTextBytes - 1);
    std::vector<Gpu> gpus;
    for (unsigned i = 0; i < count; ++i) {
      void* handle = nullptr;
      if (get_handle_(i, &handle) != 0) continue;
      std::array<char, kTextBytes> name = {};
      int major = 0;
      int minor = 0;
      get_name_(handle, name.data(), kTextBytes - 1);
      get_capability_(handle, &major, &minor);
      gpus.push_back({name.data(), UuidOf(handle), TargetOf(major, minor), driver.data()});
    }
    return gpus;
  }

  // The UUID of the GPU that a slice (MIG) is a part of; empty: the library does not know it.
  std::string ParentOf(const std::string& slice) const {
    void* handle = nullptr;
    void* parent = nullptr;
    const bool is_known = get_by_uuid_ != nullptr && get_parent_ != nullptr &&
                          get_by_uuid_(slice.c_str(), &handle) == 0 &&
                          get_parent_(handle, &parent) == 0;
    return is_known ? UuidOf(parent) : "";
  }

  // The multiprocessors and the bytes of memory of a slice; 0: the library does not know them.
  std::pair<int64_t, int64_t> PartsOf(const std::string& slice) const {
    void* handle = nullptr;
    SliceParts parts;
    const bool is_known = get_by_uuid_ != nullptr && get_parts_ != nullptr &&
                          get_by_uuid_(slice.c_str(), &handle) == 0 &&
                          get_parts_(handle, &parts) == 0;
    if (!is_known) return {0, 0};
    return {parts.sm_count, static_cast<int64_t>(parts.memory_mib) * kMiB};
  }

 private:
  bool Open() {
    void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)() = nullptr;
    is_open_ =
        nvml != nullptr && Load(nvml, "nvmlInit_v2", init) &&
        Load(nvml, "nvmlShutdown", shutdown_) && Load(nvml, "nvmlDeviceGetCount_v2", get_count_) &&
        Load(nvml, "nvmlDeviceGetHandleByIndex_v2", get_handle_) &&
        Load(nvml, "nvmlDeviceGetName", get_name_) && Load(nvml, "nvmlDeviceGetUUID", get_uuid_) &&
        Load(nvml, "nvmlDeviceGetCudaComputeCapability", get_capability_) &&
        Load(nvml, "nvmlSystemGetDriverVersion", get_driver_) && init() == 0;
    if (!is_open_) return false;
    Load(nvml, "nvmlDeviceGetHandleByUUID", get_by_uuid_);  // an older library has neither
    Load(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", get_parent_);
    Load(nvml, "nvmlDeviceGetAttributes_v2", get_parts_);
    return true;
  }
  std::string UuidOf(void* handle) const {
    std::array<char, kTextBytes> uuid = {};
    get_uuid_(handle, uuid.data(), kTextBytes - 1);
    return uuid.data();
  }

  bool is_open_ = false;
  int (*shutdown_)() = nullptr;
  int (*get_count_)(unsigned*) = nullptr;
  int (*get_handle_)(unsigned, void**) = nullptr;
  int (*get_name_)(void*, char*, unsigned) = nullptr;
  int (*get_uuid_)(void*, char*, unsigned) = nullptr;
  int (*get_capability_)(void*, int*, int*) = nullptr;
  int (*get_driver_)(char*, unsigned) = nullptr;
  int (*get_by_uuid_)(const char*, void**) = nullptr;
  int (*get_parent_)(void*, void**) = nullptr;
  int (*get_parts_)(void*, SliceParts*) = nullptr;
};

// The GPU of which "MIG-<uuid>", or the older "MIG-GPU-<uuid>/<instance>/<instance>", is a slice.
// If it cannot be found, it is none of the others, unless all are alike.
Gpu WholeOfSlice(const std::string& slice, const std::vector<Gpu>& all, const Nvml& nvml) {
  const std::string old = slice.substr(sizeof("MIG-") - 1, slice.find('/') - (sizeof("MIG-") - 1));
  const std::string parent = nvml.ParentOf(slice);
  for (const Gpu& gpu : all) {
    if (absl::EqualsIgnoreCase(gpu.uuid, old) || gpu.uuid == parent) return gpu;
  }
  const bool alike = std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) == all.end();
  return alike && !all.empty() ? all.front() : Gpu{.name = "MIG"};
}

Gpu GpuOfSlice(const std::string& slice, const std::vector<Gpu>& all, const Nvml& nvml) {
  Gpu gpu = WholeOfSlice(slice, all, nvml);
  const auto [sm_count, memory_bytes] = nvml.PartsOf(slice);
  gpu.name = NameOfGpu(gpu.name, sm_count, memory_bytes);
  return gpu;
}

// The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order.
std::vector<Gpu> Visible(const std::vector<Gpu>& all, const Nvml& nvml) {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr || all.empty()) return all;
  std::vector<Gpu> visible;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    item = absl::StripAsciiWhitespace(item);
    if (absl::StartsWithIgnoreCase(item, "MIG-")) {
      visible.push_back(GpuOfSlice(std::string(item), all, nvml));
      continue;
    }
    size_t place = all.size();
    if (!absl::SimpleAtoi(item, &place) || place >= all.size()) {
      const auto fits = [&](const Gpu& gpu) {
        return !item.empty() && absl::StartsWithIgnoreCase(gpu.uuid, item);
      };
      if (std::count_if(all.begin(), all.end(), fits) != 1) break;  // CUDA stops there, too
      place = static_cast<size_t>(std::find_if(all.begin(), all.end(), fits) - all.begin());
    }
    visible.push_back(all[place]);
  }
  return visible;
}

// The CUDA driver, if the job had it open. The loader is asked once: a child of a fork could find
// it in the middle of something.
struct Driver {
  int (*get_current)(int*) = nullptr;
  int (*get_attribute)(int*, int, int) = nullptr;
  int (*get_memory)(size_t*, int) = nullptr;
};
const Driver& OpenDriver() {
  static const Driver kDriver = [] {
    Driver driver;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return driver;
    Load(library, "cuCtxGetDevice", driver.get_current);
    Load(library, "cuDeviceGetAttribute", driver.get_attribute);
    Load(library, "cuDeviceTotalMem_v2", driver.get_memory);
    return driver;
  }();
  return kDriver;
}

// The GPU of the thread's CUDA context, if it has one.
std::optional<size_t> CurrentGpu() {
  int device = 0;
  const auto get = OpenDriver().get_current;
  if (get == nullptr || get(&device) != 0 || device < 0) return std::nullopt;
  return static_cast<size_t>(device);
}

// The multiprocessors of a GPU; 0: the job does not use CUDA yet.
int64_t SmCountOf(size_t gpu) {
  int count = 0;
  const auto get = OpenDriver().get_attribute;
  const bool is_known =
      get != nullptr && get(&count, kMultiprocessorCount, static_cast<int>(gpu)) == 0;
  return is_known ? count : 0;
}

int64_t MemoryBytesOf(size_t gpu) {
  size_t bytes = 0;
  const auto get = OpenDriver().get_memory;
  const bool is_known = get != nullptr && get(&bytes, static_cast<int>(gpu)) == 0;
  return is_known ? static_cast<int64_t>(bytes) : 0;
}

int64_t UsableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
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
      return {family, absl::StrCat(family, ":", name), host.common_targets.front(), system.release,
              UsableProcessors()};
    }
  }
  return {family, absl::StrCat(family, ":", system.machine), host.common_targets.front(),
          system.release, UsableProcessors()};
}

// The hardware does not change while the process runs.
const std::vector<Gpu>& Gpus() {
  static const auto* const kGpus = [] {
    Nvml nvml;
    const std::vector<Gpu> all = nvml.AllGpus();
    return new std::vector<Gpu>(Visible(all, nvml));
  }();
  return *kGpus;
}

}  // namespace

std::vector<LocalDevice> LocalDevices() {
  static const auto* const kCpu = new LocalDevice(Cpu());
  std::vector<LocalDevice> devices;
  const std::vector<Gpu>& gpus = Gpus();
  for (size_t i = 0; i < gpus.size(); ++i) {
    const int64_t sm_count = SmCountOf(i);
    devices.push_back({DeviceIdOf(static_cast<int>(i)),
                       NameOfGpu(gpus[i].name, sm_count, MemoryBytesOf(i)), gpus[i].target,
                       gpus[i].driver, sm_count});
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
