// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_evidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tuner/statistics/median.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

double MedianOver(const std::vector<gate::Leg>& legs, gate::Revision revision) {
  double log_sum = 0;
  int count = 0;
  for (const gate::Leg& leg : legs) {
    if (leg.revision != revision || leg.median_ns <= 0) continue;
    log_sum += std::log(leg.median_ns);
    ++count;
  }
  return count == 0 ? 0 : std::exp(log_sum / count);
}

EvidenceRound ReduceLegs(const std::vector<db::GateLegRow>& rows, const gate::Rules& rules) {
  EvidenceRound round{.gate_kernel_id = rows.front().gate_kernel_id,
                      .stage = rows.front().stage,
                      .round = rows.front().round};
  std::vector<gate::Leg> legs;
  for (const db::GateLegRow& row : rows) {
    if (row.outcome != Outcome::kOk) {
      round.fault = row.message;
      continue;
    }
    gate::Leg leg = row.leg;
    leg.median_ns = leg.samples_ns.empty() ? 0 : EstimateMedian(leg.samples_ns).median;
    legs.push_back(std::move(leg));
  }
  round.result = gate::Reduce(legs, rules);
  round.base_ns = MedianOver(legs, gate::Revision::kBase);
  round.head_ns = MedianOver(legs, gate::Revision::kHead);
  return round;
}

bool Near(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return true;
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

}  // namespace

absl::StatusOr<std::vector<EvidenceRound>> LoadRounds(db::Store& store, int64_t gate_kernel_id,
                                                      const gate::Rules& rules) {
  ASSIGN_OR_RETURN(const std::vector<db::GateLegRow> legs, store.GateLegs(gate_kernel_id));
  std::vector<EvidenceRound> rounds;
  for (size_t begin = 0, end = 0; begin < legs.size(); begin = end) {
    while (end < legs.size() && legs[end].round == legs[begin].round &&
           legs[end].stage == legs[begin].stage) {
      ++end;
    }
    rounds.push_back(ReduceLegs({legs.begin() + static_cast<std::ptrdiff_t>(begin),
                                 legs.begin() + static_cast<std::ptrdiff_t>(end)},
                                rules));
  }
  return rounds;
}

absl::StatusOr<GateEvidence> LoadEvidence(db::Store& store, int64_t run_id) {
  GateEvidence evidence;
  ASSIGN_OR_RETURN(evidence.run, store.GetGateRun(run_id));
  ASSIGN_OR_RETURN(evidence.kernels, store.GateKernels(run_id));
  for (const db::GateKernelRow& kernel : evidence.kernels) {
    ASSIGN_OR_RETURN(std::vector<EvidenceRound> rounds,
                     LoadRounds(store, kernel.id, evidence.run.rules));
    std::move(rounds.begin(), rounds.end(), std::back_inserter(evidence.rounds));
  }
  // Within a round the order of the kernels does not matter to the decision.
  std::stable_sort(evidence.rounds.begin(), evidence.rounds.end(),
                   [](const auto& a, const auto& b) { return a.round < b.round; });
  ASSIGN_OR_RETURN(const std::vector<db::GateVerdictRow> verdicts, store.GateVerdicts(run_id));
  for (const db::GateVerdictRow& verdict : verdicts) {
    evidence.verdicts[verdict.gate_kernel_id] = verdict.judgement;
  }
  return evidence;
}

absl::StatusOr<std::map<int64_t, gate::Judgement>> Recompute(const GateEvidence& evidence) {
  if (evidence.run.kind != db::GateKind::kGate) {
    return absl::FailedPreconditionError(
        absl::StrCat("run ", evidence.run.id, " is no gate: it has no verdicts"));
  }
  std::vector<double> tolerances;
  std::map<int64_t, size_t> places;
  for (const db::GateKernelRow& kernel : evidence.kernels) {
    places[kernel.id] = tolerances.size();
    tolerances.push_back(kernel.tolerance);
  }
  gate::Gate gate(evidence.run.rules, tolerances);
  for (size_t i = 0; i < evidence.kernels.size(); ++i) {
    const db::GateKernelRow& kernel = evidence.kernels[i];
    if (!kernel.fault.empty()) {
      gate.SetInvalid(i, kernel.fault);
    } else if (kernel.identical) {
      gate.SetIdentical(i);
    }
  }
  for (const EvidenceRound& round : evidence.rounds) {
    if (round.stage == gate::Stage::kRecovery) continue;
    const size_t place = places.at(round.gate_kernel_id);
    if (!round.fault.empty()) {
      gate.SetInvalid(place, round.fault);
    } else {
      gate.Add(place, round.result);
    }
  }
  if (!gate.Wanted().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "run ", evidence.run.id, " was interrupted before it reached its verdicts"));
  }
  std::map<int64_t, gate::Judgement> judgements;
  for (const auto& [id, place] : places) judgements[id] = gate.Judge(place);
  return judgements;
}

std::vector<std::string> Differences(const std::string& kernel, const gate::Judgement& stored,
                                     const gate::Judgement& recomputed) {
  std::vector<std::string> differences;
  const auto note = [&](absl::string_view what, const auto& a, const auto& b) {
    differences.push_back(absl::StrCat(kernel, ": ", what, " was ", a, " and is ", b));
  };
  if (stored.verdict != recomputed.verdict) {
    note("the verdict", ToText(stored.verdict), ToText(recomputed.verdict));
  }
  if (stored.reason != recomputed.reason) note("the reason", stored.reason, recomputed.reason);
  const struct {
    const char* name;
    double gate::Judgement::*value;
  } values[] = {{"the ratio", &gate::Judgement::ratio},
                {"the interval's low end", &gate::Judgement::ratio_low},
                {"the interval's high end", &gate::Judgement::ratio_high},
                {"the deviation", &gate::Judgement::deviation},
                {"the least slowdown caught", &gate::Judgement::least_caught},
                {"p", &gate::Judgement::p},
                {"the p needed", &gate::Judgement::p_needed}};
  for (const auto& [name, value] : values) {
    if (!Near(stored.*value, recomputed.*value)) note(name, stored.*value, recomputed.*value);
  }
  if (stored.rounds != recomputed.rounds) note("the rounds", stored.rounds, recomputed.rounds);
  return differences;
}

}  // namespace tune::server
