// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for profiles. Profiles of trials. Evidence: a profile never
// changes once it is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fields.h"
#include "db/job.h"
#include "tuner/counters/profile.h"
#include "tuner/trial_key.h"

namespace tune::db {

// A profile with the key under which it was measured.
struct ProfileRow {
  TrialKey key;
  std::string kernel_name;
  int64_t job_id = 0;  // that counted, and whose owner it counts for; 0: not known
  Profile profile;
};
TUNE_FIELDS(ProfileRow, key, kernel_name, job_id, profile);

// Selects profiles that match every field that is set.
struct ProfileFilter {
  int64_t sweep_id = 0;
  int64_t trial_id = 0;
  std::string kernel_name;
  std::string kernel_hash;
  std::string device_name;
  uint32_t limit = 100;
  int64_t before_id = kNewest;
};

// Thread-safe.
class ProfileStore {
 public:
  virtual ~ProfileStore() = default;

  // Appends a profile and returns its id. Never changed afterwards. NOT_FOUND: no such kernel or
  // trial.
  virtual absl::StatusOr<int64_t> AppendProfile(const ProfileRow& row) = 0;
  virtual absl::StatusOr<std::vector<ProfileRow>> ListProfiles(
      const ProfileFilter& filter) = 0;  // newest first
};

}  // namespace tune::db
