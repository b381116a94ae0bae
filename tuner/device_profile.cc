// SPDX-License-Identifier: Apache-2.0
#include "tuner/device_profile.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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
  gpu.leg = {
      .samples_min = 20, .samples_max = 2000, .seconds_max = 0.25, .precision = 0.0025};
  gpu.profile = {.samples_max = 500, .seconds_max = 0.25, .precision = 0.0025};
  gpu.default_budget = absl::InfiniteDuration();
  gpu.confirm_time = absl::Seconds(6);  // eight rounds of nine configs
  gpu.confirm_time_max = absl::Seconds(12);
  return gpu;
}

// A launch may take a second, flushing the caches before each sample takes tens of milliseconds,
// and the noise of a host is far above a GPU's: few samples tell what can be told.
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
