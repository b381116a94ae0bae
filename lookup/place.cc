// SPDX-License-Identifier: Apache-2.0
#include "lookup/place.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tuner/device_profile.h"
#include "tuner/gpu_part.h"

namespace tune::lookup {
namespace {

// The kind that "cuda", "cuda:1" or "cpu" names; null for a device's name.
const DeviceProfile* KindOf(const std::string& asked) {
  for (const DeviceProfile* profile : DeviceProfiles()) {
    if (asked == profile->family) return profile;
  }
  return OrdinalOf(asked).has_value() ? &ProfileOfDevice(asked) : nullptr;
}

struct Newest {
  const SeenDevices::value_type* device = nullptr;  // null: there is none
  int count = 0;                                    // of those that it is the newest of
};

// The newest recorded device of a kind. For any kind (null), only devices that were measured here
// count.
Newest NewestOf(const DeviceProfile* kind, const SeenDevices& seen) {
  Newest newest;
  std::pair<bool, int64_t> best;
  for (const SeenDevices::value_type& one : seen) {
    const auto& [target, id] = one.second;
    const DeviceProfile& profile = ProfileOfTarget(target);
    if (kind == nullptr ? id == 0 : &profile != kind) continue;
    const std::pair rank(!profile.is_host, id);
    if (newest.count++ == 0 || rank > best) {
      newest.device = &one;
      best = rank;
    }
  }
  return newest;
}

// Splits a GPU's name into words: "nvidia", "h100", "80gb", ...
std::vector<std::string> WordsOf(const std::string& name) {
  return absl::StrSplit(absl::AsciiStrToLower(name), absl::ByAnyChar(" _-"), absl::SkipEmpty());
}

// The one recorded GPU that `asked` means. Words without the maker's may be a part of the name, as
// "H200" of "NVIDIA H200"; with the maker's, the whole name must match. Null if no GPU matches, or
// several do. The name of a card does not mean a part of one.
const SeenDevices::value_type* MeantBy(const std::string& asked, const SeenDevices& seen) {
  using Words = std::vector<std::string>;
  const Words words = WordsOf(asked);
  const auto only_of = [&](const auto& is_meant) -> const SeenDevices::value_type* {
    const SeenDevices::value_type* meant = nullptr;
    for (const SeenDevices::value_type& one : seen) {
      const Words name = WordsOf(one.first);
      if (name.empty() || ProfileOfTarget(one.second.target).is_host || !is_meant(name)) continue;
      if (IsPartOfGpu(one.first) && !IsPartOfGpu(asked)) continue;
      if (meant != nullptr) return nullptr;
      meant = &one;
    }
    return meant;
  };
  if (words.empty()) return nullptr;
  const SeenDevices::value_type* same = only_of([&](const Words& name) { return name == words; });
  if (same != nullptr) return same;
  return only_of([&](const Words& name) {
    return name.front() != words.front() &&
           std::all_of(words.begin(), words.end(), [&](const std::string& word) {
             return std::find(name.begin() + 1, name.end(), word) != name.end();
           });
  });
}

RecordedPlace UnknownGpu(const std::string& asked, const SeenDevices& seen) {
  const std::string unknown = absl::StrCat("device '", asked, "' is not known here");
  if (const std::string target = TargetOfGpu(asked); !target.empty()) {
    return {asked, target, absl::StrCat(unknown, ", by its name it is of ", target)};
  }
  const DeviceProfile& gpu = ProfileOfDevice(DeviceIdOf(0));
  const Newest newest = NewestOf(&gpu, seen);
  const std::string target =
      newest.device != nullptr ? newest.device->second.target : gpu.common_targets.front();
  return {asked, target, absl::StrCat(unknown, ", it is taken for a GPU of ", target)};
}

}  // namespace

RecordedPlace PlaceByRecords(const std::string& asked, const SeenDevices& seen) {
  if (const auto known = seen.find(asked); known != seen.end()) {
    return {asked, known->second.target, ""};
  }
  const DeviceProfile* kind = KindOf(asked);
  if (asked.empty() || kind != nullptr) {
    const auto [device, count] = NewestOf(kind, seen);
    if (device != nullptr) {
      return {device->first, device->second.target,
              count > 1 ? absl::StrCat("the device is taken to be ", device->first) : ""};
    }
  }
  if (kind == nullptr) {
    if (const SeenDevices::value_type* meant = MeantBy(asked, seen)) {
      return {meant->first, meant->second.target,
              absl::StrCat("the device is taken to be ", meant->first)};
    }
  }
  if (!asked.empty() && !ProfileOfDevice(asked).is_host) return UnknownGpu(asked, seen);
  const bool named = !asked.empty() && kind == nullptr;
  return {asked, DeviceProfiles().back()->common_targets.front(),
          named ? absl::StrCat("device '", asked, "' is not known here") : ""};
}

}  // namespace tune::lookup
