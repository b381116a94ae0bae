// SPDX-License-Identifier: Apache-2.0
#include "server/report/sweep_evidence.h"

#include <utility>

#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr uint32_t kTrialsRead = 256;  // with their samples, which are dropped at once

EvidenceTrial WithoutSamples(Trial trial) {
  EvidenceTrial evidence{.trial = std::move(trial)};
  evidence.sample_count = static_cast<uint32_t>(evidence.trial.measurement.samples_ns.size());
  evidence.trial.measurement.samples_ns = {};
  return evidence;
}

absl::StatusOr<std::vector<EvidenceTrial>> OwnTrials(db::Store& store, int64_t sweep_id) {
  std::vector<EvidenceTrial> trials;
  int64_t last_id = 0;
  while (true) {
    ASSIGN_OR_RETURN(std::vector<Trial> piece, store.TrialsAfter(sweep_id, last_id, kTrialsRead));
    if (piece.empty()) return trials;
    last_id = piece.back().id;
    for (Trial& trial : piece) trials.push_back(WithoutSamples(std::move(trial)));
  }
}

}  // namespace

absl::StatusOr<SweepEvidence> GatherEvidence(db::Store& store, Sweeps& sweeps,
                                             int64_t sweep_id) {
  SweepEvidence evidence;
  ASSIGN_OR_RETURN(evidence.view, sweeps.Get(sweep_id));
  ASSIGN_OR_RETURN(evidence.trials, OwnTrials(store, sweep_id));
  if (evidence.view.progress.reused > 0) {
    ASSIGN_OR_RETURN(std::vector<Trial> known, store.TrialsKnownTo(evidence.view.row));
    std::vector<EvidenceTrial> all;
    for (Trial& trial : known) all.push_back(WithoutSamples(std::move(trial)));
    evidence.reused = all.size();
    for (EvidenceTrial& own : evidence.trials) all.push_back(std::move(own));
    evidence.trials = std::move(all);
  }
  if (evidence.trials.empty()) return evidence;
  ASSIGN_OR_RETURN(evidence.key, store.KeyOfTrial(evidence.trials.back().trial.id));
  return evidence;
}

absl::StatusOr<std::shared_ptr<const Kernel>> KernelOf(db::Store& store,
                                                       const std::string& kernel_hash) {
  ASSIGN_OR_RETURN(db::KernelRow row, store.GetKernel(kernel_hash));
  return Kernel::Create(row.spec_name, row.spec_text, row.files);
}

}  // namespace tune::server
