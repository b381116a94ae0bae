// SPDX-License-Identifier: Apache-2.0
#include "server/report/sweep_evidence.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "server/rpc/wanted.h"
#include "server/wire/spec.h"

namespace tune::server {
namespace {

constexpr uint32_t kProfilesMax = 1000;  // the newest; each has some KiB of counters
constexpr uint32_t kTrialsRead = 32;     // with their samples, which are dropped at once
constexpr size_t kMessageBytesMax = 512;

// Without samples, and with as much of the message as a report shows.
Trial Slim(Trial trial) {
  trial.measurement.samples_ns = {};
  if (trial.message.size() > kMessageBytesMax) {
    trial.message = trial.message.substr(0, kMessageBytesMax);  // resize would keep the memory
  }
  return trial;
}

absl::StatusOr<std::vector<Trial>> OwnTrials(db::TrialStore& store, int64_t sweep_id,
                                             const Cancelled& cancelled) {
  std::vector<Trial> trials;
  int64_t last_id = 0;
  while (true) {
    RETURN_IF_ERROR(CheckWanted(cancelled));
    ASSIGN_OR_RETURN(std::vector<Trial> piece, store.TrialsAfter(sweep_id, last_id, kTrialsRead));
    if (piece.empty()) return trials;
    last_id = piece.back().id;
    for (Trial& trial : piece) trials.push_back(Slim(std::move(trial)));
  }
}

}  // namespace

absl::StatusOr<SweepEvidence> GatherEvidence(db::Store& store, Sweeps& sweeps, int64_t sweep_id,
                                             const Cancelled& cancelled) {
  SweepEvidence evidence;
  ASSIGN_OR_RETURN(evidence.view, sweeps.Get(sweep_id));
  ASSIGN_OR_RETURN(evidence.trials, OwnTrials(store, sweep_id, cancelled));
  if (evidence.view.progress.reused > 0) {
    ASSIGN_OR_RETURN(std::vector<Trial> known, store.TrialsKnownTo(evidence.view.row));
    for (Trial& trial : known) trial = Slim(std::move(trial));
    evidence.reused = known.size();
    std::move(evidence.trials.begin(), evidence.trials.end(), std::back_inserter(known));
    evidence.trials = std::move(known);
  }
  if (evidence.trials.empty()) return evidence;
  ASSIGN_OR_RETURN(evidence.key, store.KeyOfTrial(evidence.trials.back().id));
  return evidence;
}

absl::StatusOr<std::shared_ptr<const Kernel>> KernelOf(db::KernelStore& store,
                                                       const std::string& kernel_hash) {
  ASSIGN_OR_RETURN(db::KernelRow row, store.GetKernel(kernel_hash));
  return ReadKernel(row.spec_name, row.spec_text, row.files);
}

absl::StatusOr<std::map<int64_t, CountedTrial>> CountedTrials(db::ProfileStore& store,
                                                              int64_t sweep_id) {
  ASSIGN_OR_RETURN(std::vector<db::ProfileRow> rows,
                   store.ListProfiles({.sweep_id = sweep_id, .limit = kProfilesMax}));
  std::map<int64_t, CountedTrial> counted;
  for (const db::ProfileRow& row : rows) {
    const Profile& profile = row.profile;
    if (!profile.counted) continue;
    const auto [it, is_newest] = counted.try_emplace(profile.trial_id);
    if (!is_newest) continue;
    it->second.profile_id = profile.id;
    CountedWork& work = it->second.work;
    const std::pair<const char*, std::optional<double>*> levels[] = {
        {"dram_read", &work.dram_read_bytes},
        {"dram_write", &work.dram_write_bytes},
        {"l2", &work.l2_bytes},
        {"l1", &work.l1_bytes},
        {"shared", &work.shared_bytes}};
    for (const auto& [name, bytes] : levels) {
      const auto found = profile.quantities.find(name);
      if (found != profile.quantities.end()) *bytes = found->second;
    }
    for (const auto& [name, value] : profile.quantities) {
      if (IsFlopQuantity(name) && value > 0) work.flops[name] = value;
    }
  }
  return counted;
}

}  // namespace tune::server
