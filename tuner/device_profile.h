// SPDX-License-Identifier: Apache-2.0
// The differences between kinds of devices, in one place: how their work is measured, how long it
// may take, what they can do. No other code compares targets or ids by their names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tuner/sample_policy.h"

namespace tune {

struct DeviceProfile {
  // The prefix of its devices' ids: "cuda" of "cuda:0", "cpu".
  absl::string_view family;
  // Targets that most of its devices have, for questions that name no device.
  std::vector<std::string> common_targets;
  // It measures on the processors that compilers use, so compilers pause meanwhile. Its worker runs
  // variants as code of its own process.
  bool is_host = false;
  bool has_counters = false;
  bool has_tensor_maps = false;

  // How samples are taken; their cache mode is for the caller to set.
  SamplePolicy search;   // of a sweep's search: enough to rank configs
  SamplePolicy confirm;  // of one round that confirms a winner: as many samples in each
  SamplePolicy leg;      // of a gate
  SamplePolicy profile;  // of the time that counters are held against

  absl::Duration default_budget;    // of a sweep that names none; infinite: no limit
  absl::Duration confirm_time;      // no further round is begun after it
  absl::Duration confirm_time_max;  // beyond a budget in seconds
  int run_deadline_factor = 1;      // how much longer a run may take than on a GPU
};

// The profile of a target ("sm_90a", "cpu") and of a device's id ("cuda:0", "cpu"). Unknown ones
// are taken for a GPU's.
const DeviceProfile& ProfileOfTarget(absl::string_view target);
const DeviceProfile& ProfileOfDevice(absl::string_view device_id);

// The compile target of a GPU by its name alone, as the driver reports it ("NVIDIA H100 80GB HBM3")
// or without its size; empty if it is not in the table.
std::string TargetOfGpu(absl::string_view name);
std::vector<std::string> NamedGpuTargets();

// The ordinal, 1 of "cuda:1", or nullopt for devices that are not numbered; and the id of an
// ordinal.
std::optional<int> OrdinalOf(absl::string_view device_id);
std::string DeviceIdOf(int ordinal);

// All there are, those that are preferred for work first. The last is there on every host.
const std::vector<const DeviceProfile*>& DeviceProfiles();

// The policy with a cache mode.
SamplePolicy With(CacheMode cache_mode, SamplePolicy policy);

}  // namespace tune
