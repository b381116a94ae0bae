// SPDX-License-Identifier: Apache-2.0
// A gate run as the store has it, and what follows from it: verdicts are recomputed from legs and
// rules alone, by the code that made them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "tuner/gate/gate.h"

namespace tune::server {

// A round of a kernel, from its legs.
struct EvidenceRound {
  int64_t gate_kernel_id = 0;
  gate::Stage stage = gate::Stage::kScreen;
  int round = 0;
  gate::RoundResult result;
  std::string fault;  // the variant's own
  // Median over the revision's legs, in ns; 0 without legs.
  double base_ns = 0;
  double head_ns = 0;
  double head_log = 0;  // for recordings, which have no pair
};

struct GateEvidence {
  db::GateRunRow run;
  std::vector<db::GateKernelRow> kernels;
  std::vector<EvidenceRound> rounds;  // in the order in which they ran
  std::map<int64_t, gate::Judgement> verdicts;  // as stored, by gate kernel; empty if unfinished
};

absl::StatusOr<GateEvidence> LoadEvidence(db::Store& store, int64_t run_id);
// Rounds of one kernel, in order.
absl::StatusOr<std::vector<EvidenceRound>> LoadRounds(db::Store& store, int64_t gate_kernel_id,
                                                      const gate::Rules& rules);

// Verdicts by gate kernel. FAILED_PRECONDITION if the rounds do not reach a decision: the run was
// interrupted, or is no gate.
absl::StatusOr<std::map<int64_t, gate::Judgement>> Recompute(const GateEvidence& evidence);

// What differs between two judgements of a kernel, as sentences.
std::vector<std::string> Differences(const std::string& kernel, const gate::Judgement& stored,
                                     const gate::Judgement& recomputed);

}  // namespace tune::server
