// SPDX-License-Identifier: Apache-2.0
// A gate run as the store has it, and what follows from it: verdicts are recomputed from legs and
// rules alone, by the code that made them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "db/gate_store.h"
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
};
TUNE_FIELDS(EvidenceRound, gate_kernel_id, stage, round, result, fault, base_ns, head_ns);

// Why the round says nothing; empty if it does.
const std::string& WhyInvalid(const EvidenceRound& round);

// The head's own best config against the base's.
struct Recovery {
  Config config;
  double ratio = 1;
  double ratio_low = 1;
  double ratio_high = 1;  // 95 % interval (t) of the rounds
  bool recovers = false;  // the loss is within the tolerance with it
};
TUNE_FIELDS(Recovery, config, ratio, ratio_low, ratio_high, recovers);

struct GateEvidence {
  db::GateRunRow run;
  std::vector<db::GateKernelRow> kernels;
  std::vector<EvidenceRound> rounds;            // in the order in which they ran
  std::map<int64_t, gate::Judgement> verdicts;  // as stored, by gate kernel; empty if unfinished
};

// CANCELLED: `cancelled` said so; it is asked between the kernels of a run.
absl::StatusOr<GateEvidence> LoadEvidence(db::GateStore& store, int64_t run_id,
                                          const Cancelled& cancelled);
// Rounds of one kernel, in order.
absl::StatusOr<std::vector<EvidenceRound>> LoadRounds(db::GateStore& store, int64_t gate_kernel_id,
                                                      const gate::Rules& rules);

// Verdicts by gate kernel. FAILED_PRECONDITION if the rounds do not reach a decision: the run was
// interrupted, or is no gate. CANCELLED: as LoadEvidence.
absl::StatusOr<std::map<int64_t, gate::Judgement>> Recompute(const GateEvidence& evidence,
                                                             const Cancelled& cancelled);

// What the rounds of a kernel come to.
struct Findings {
  // The verdict; of a run whose rounds decide nothing, their estimate.
  gate::Judgement judgement;
  double tolerance = 0;  // its own, or the run's
  double base_ns = 0;    // median of the rounds' medians; 0 without any
  double head_ns = 0;
  std::optional<Recovery> recovery;
  std::vector<const EvidenceRound*> rounds;  // of the evidence, all stages
};
// Of each kernel of the evidence, which must outlive them. Verdicts by gate kernel.
std::vector<Findings> FindingsOf(const GateEvidence& evidence,
                                 const std::map<int64_t, gate::Judgement>& verdicts);

// What differs between two judgements of a kernel, as sentences.
std::vector<std::string> Differences(const std::string& kernel, const gate::Judgement& stored,
                                     const gate::Judgement& recomputed);

}  // namespace tune::server
