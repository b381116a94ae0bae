// SPDX-License-Identifier: Apache-2.0
#include "tuner/device_profile.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tune {
namespace {

DeviceProfile MakeGpu() {
  DeviceProfile gpu;
  gpu.family = "cuda";
  gpu.common_targets = {"sm_90a", "sm_80"};
  gpu.has_counters = true;
  gpu.has_tensor_maps = true;
  gpu.confirm = {.samples_min = 40, .samples_max = 40, .seconds_max = 0.02, .precision = 0};
  gpu.leg = {.samples_min = 20, .samples_max = 2000, .seconds_max = 0.25, .precision = 0.0025};
  gpu.profile = {.samples_max = 500, .seconds_max = 0.25, .precision = 0.0025};
  gpu.default_budget = absl::InfiniteDuration();
  gpu.confirm_time = absl::Seconds(6);  // eight rounds of nine configs
  gpu.confirm_time_max = absl::Seconds(12);
  return gpu;
}

// A launch may take a second, flushing the caches before each sample takes tens of milliseconds,
// and a host's noise is far above a GPU's: more samples would not give more precision.
DeviceProfile MakeHost() {
  DeviceProfile host;
  host.family = "cpu";
  host.common_targets = {"cpu"};
  host.is_host = true;
  host.search = {.samples_min = 3,
                 .samples_max = 24,
                 .seconds_max = 0.25,
                 .precision = 0.01,
                 .hopeless_ratio = 1.5};
  host.confirm = {.samples_min = 3, .samples_max = 8, .seconds_max = 0.15, .precision = 0};
  host.leg = {.samples_min = 5, .samples_max = 200, .seconds_max = 0.05, .precision = 0.0025};
  host.profile = {.samples_min = 3, .samples_max = 24, .seconds_max = 1, .precision = 0.01};
  // Leaves time to measure the winner again within 90 s in all.
  host.default_budget = absl::Seconds(45);
  host.confirm_time = absl::Seconds(20);
  host.confirm_time_max = absl::Seconds(40);
  host.run_deadline_factor = 6;
  return host;
}

struct GpuModels {
  absl::string_view target;
  std::vector<absl::string_view> models;  // a word of their names each
};

// https://developer.nvidia.com/cuda-gpus, of those that kernels are tuned for.
const std::vector<GpuModels>& Models() {
  static const auto* const kModels = new std::vector<GpuModels>{
      {"sm_70", {"V100"}},
      {"sm_75", {"T4"}},
      {"sm_80", {"A100", "A30", "A800"}},
      {"sm_86", {"A10", "A10G", "A40", "A6000", "3090"}},
      {"sm_89", {"L4", "L40", "L40S", "4090"}},
      {"sm_90a", {"H100", "H200", "H800", "H20", "GH200"}},
      {"sm_100a", {"B200", "GB200"}},
      {"sm_103a", {"B300", "GB300"}},
      {"sm_120a", {"5090"}},
  };
  return *kModels;
}

const DeviceProfile& Gpu() {
  static const DeviceProfile* const kGpu = new DeviceProfile(MakeGpu());
  return *kGpu;
}

const DeviceProfile& Host() {
  static const DeviceProfile* const kHost = new DeviceProfile(MakeHost());
  return *kHost;
}

}  // namespace

const DeviceProfile& ProfileOfTarget(absl::string_view target) {
  return target == Host().family ? Host() : Gpu();
}

const DeviceProfile& ProfileOfDevice(absl::string_view device_id) {
  return absl::StartsWith(device_id, Host().family) ? Host() : Gpu();
}

std::string TargetOfGpu(absl::string_view name) {
  const std::string upper = absl::AsciiStrToUpper(name);
  for (const absl::string_view word : absl::StrSplit(upper, absl::ByAnyChar(" -_"))) {
    for (const GpuModels& of_target : Models()) {
      const auto& models = of_target.models;
      if (std::find(models.begin(), models.end(), word) != models.end()) {
        return std::string(of_target.target);
      }
    }
  }
  return "";
}

std::vector<std::string> NamedGpuTargets() {
  std::vector<std::string> targets;
  for (const GpuModels& of_target : Models()) targets.emplace_back(of_target.target);
  return targets;
}

std::optional<int> OrdinalOf(absl::string_view device_id) {
  int ordinal = 0;
  const bool numbered = absl::ConsumePrefix(&device_id, Gpu().family) &&
                        absl::ConsumePrefix(&device_id, ":") &&
                        absl::SimpleAtoi(device_id, &ordinal);
  return numbered ? std::optional<int>(ordinal) : std::nullopt;
}

std::string DeviceIdOf(int ordinal) { return absl::StrCat(Gpu().family, ":", ordinal); }

const std::vector<const DeviceProfile*>& DeviceProfiles() {
  static const auto* const kAll = new std::vector<const DeviceProfile*>{&Gpu(), &Host()};
  return *kAll;
}

SamplePolicy With(CacheMode cache_mode, SamplePolicy policy) {
  policy.cache_mode = cache_mode;
  return policy;
}

}  // namespace tune
