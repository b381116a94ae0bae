// SPDX-License-Identifier: Apache-2.0
// The evidence of a sweep in the store, for a report.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "db/store.h"
#include "server/sweep/sweep_view.h"
#include "server/sweep/sweeps.h"
#include "tuner/kernel/kernel.h"
#include "tuner/roofline/diagnosis.h"
#include "tuner/trial_key.h"

namespace tune::server {

inline constexpr uint32_t kSweepsSearched = 1000;  // of the newest, for reports that name none

struct SweepEvidence {
  SweepView view;
  // The key of the newest trial; its own fields are empty if there is none.
  TrialKey key;
  // Without samples, oldest first. Trials of earlier sweeps of the key that this one reused come
  // first.
  std::vector<Trial> trials;
  uint64_t reused = 0;
};

// Counters of a trial.
struct CountedTrial {
  int64_t profile_id = 0;
  CountedWork work;
};

// The counters of a sweep's trials, by trial id: the newest profile of each.
absl::StatusOr<std::map<int64_t, CountedTrial>> CountedTrials(db::ProfileStore& store,
                                                              int64_t sweep_id);

// NOT_FOUND: no such sweep. CANCELLED: `cancelled` said so; it is asked between pieces of trials.
absl::StatusOr<SweepEvidence> GatherEvidence(db::Store& store, Sweeps& sweeps, int64_t sweep_id,
                                             const Cancelled& cancelled);

// The kernel of a sweep as it was submitted.
absl::StatusOr<std::shared_ptr<const Kernel>> KernelOf(db::KernelStore& store,
                                                       const std::string& kernel_hash);

}  // namespace tune::server
