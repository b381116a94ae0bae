// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_evidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/wanted.h"
#include "tuner/statistics/median.h"
#include "tuner/statistics/series.h"

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

EvidenceRound ReduceLegs(const std::vector<db::LegRow>& rows, const gate::Rules& rules) {
  EvidenceRound round{.gate_kernel_id = rows.front().gate_kernel_id,
                      .stage = db::ToStage(rows.front().purpose),
                      .round = rows.front().round};
  std::vector<gate::Leg> legs;
  for (const db::LegRow& row : rows) {
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

double MedianOrZero(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Of the rounds that say something.
std::vector<double> LogRatios(const std::vector<const EvidenceRound*>& rounds) {
  std::vector<double> log_ratios;
  for (const EvidenceRound* round : rounds) {
    if (WhyInvalid(*round).empty()) log_ratios.push_back(round->result.log_ratio);
  }
  return log_ratios;
}

// What the rounds of a study, or of a head timed for the history, say, where there is no verdict.
gate::Judgement Estimate(const std::string& fault,
                         const std::vector<const EvidenceRound*>& rounds) {
  const std::vector<double> log_ratios = LogRatios(rounds);
  gate::Judgement judgement{
      .verdict = fault.empty() ? gate::Verdict::kNone : gate::Verdict::kInvalid,
      .reason = fault,
      .ratio = 0,
      .ratio_low = 0,
      .ratio_high = 0,
      .rounds = static_cast<int>(log_ratios.size()),
      .invalid_rounds = static_cast<int>(rounds.size() - log_ratios.size()),
      .p = 0};
  if (log_ratios.empty()) return judgement;
  const MeanInterval interval = EstimateMean(log_ratios);
  judgement.ratio = std::exp(interval.mean);
  judgement.ratio_low = std::exp(interval.low);
  judgement.ratio_high = std::exp(interval.high);
  judgement.deviation = StandardDeviation(log_ratios);
  judgement.autocorrelation = Lag1Autocorrelation(log_ratios);
  return judgement;
}

std::optional<Recovery> RecoveryOf(const Config& config, double tolerance,
                                   const std::vector<const EvidenceRound*>& rounds) {
  const std::vector<double> log_ratios = LogRatios(rounds);
  if (log_ratios.empty()) return std::nullopt;
  const MeanInterval interval = EstimateMean(log_ratios);
  return Recovery{.config = config,
                  .ratio = std::exp(interval.mean),
                  .ratio_low = std::exp(interval.low),
                  .ratio_high = std::exp(interval.high),
                  .recovers = interval.mean <= std::log1p(tolerance)};
}

bool Near(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return true;
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

}  // namespace

const std::string& WhyInvalid(const EvidenceRound& round) {
  return round.fault.empty() ? round.result.invalid : round.fault;
}

absl::StatusOr<std::vector<EvidenceRound>> LoadRounds(db::GateStore& store, int64_t gate_kernel_id,
                                                      const gate::Rules& rules) {
  ASSIGN_OR_RETURN(const std::vector<db::LegRow> legs, store.GateLegs(gate_kernel_id));
  std::vector<EvidenceRound> rounds;
  for (size_t begin = 0, end = 0; begin < legs.size(); begin = end) {
    while (end < legs.size() && legs[end].round == legs[begin].round &&
           legs[end].purpose == legs[begin].purpose) {
      ++end;
    }
    rounds.push_back(ReduceLegs({legs.begin() + static_cast<std::ptrdiff_t>(begin),
                                 legs.begin() + static_cast<std::ptrdiff_t>(end)},
                                rules));
  }
  return rounds;
}

absl::StatusOr<GateEvidence> LoadEvidence(db::GateStore& store, int64_t run_id,
                                          const Cancelled& cancelled) {
  GateEvidence evidence;
  ASSIGN_OR_RETURN(evidence.run, store.GetGateRun(run_id));
  ASSIGN_OR_RETURN(evidence.kernels, store.GateKernels(run_id));
  for (const db::GateKernelRow& kernel : evidence.kernels) {
    RETURN_IF_ERROR(CheckWanted(cancelled));
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

absl::StatusOr<std::map<int64_t, gate::Judgement>> Recompute(const GateEvidence& evidence,
                                                             const Cancelled& cancelled) {
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
    RETURN_IF_ERROR(CheckWanted(cancelled));
    if (round.stage == gate::Stage::kRecovery) continue;
    const size_t place = places.at(round.gate_kernel_id);
    if (!round.fault.empty()) {
      gate.SetInvalid(place, round.fault);
    } else {
      gate.Add(place, round.result);
    }
  }
  if (!gate.Wanted().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("run ", evidence.run.id, " was interrupted before it reached its verdicts"));
  }
  std::map<int64_t, gate::Judgement> judgements;
  for (const auto& [id, place] : places) {
    RETURN_IF_ERROR(CheckWanted(cancelled));
    judgements[id] = gate.Judge(place);
  }
  return judgements;
}

std::vector<Findings> FindingsOf(const GateEvidence& evidence,
                                 const std::map<int64_t, gate::Judgement>& verdicts) {
  std::map<int64_t, std::vector<const EvidenceRound*>> rounds;
  for (const EvidenceRound& round : evidence.rounds) rounds[round.gate_kernel_id].push_back(&round);
  std::vector<Findings> all;
  for (const db::GateKernelRow& kernel : evidence.kernels) {
    Findings findings{.rounds = std::move(rounds[kernel.id])};
    findings.tolerance = kernel.tolerance < 0 ? evidence.run.rules.delta0 : kernel.tolerance;
    std::vector<const EvidenceRound*> recoveries;
    std::vector<double> base_ns;
    std::vector<double> head_ns;
    for (const EvidenceRound* round : findings.rounds) {
      if (round->stage == gate::Stage::kRecovery) {
        recoveries.push_back(round);
        continue;
      }
      if (round->base_ns > 0) base_ns.push_back(round->base_ns);
      if (round->head_ns > 0) head_ns.push_back(round->head_ns);
    }
    findings.base_ns = MedianOrZero(base_ns);
    findings.head_ns = MedianOrZero(head_ns);
    findings.recovery = RecoveryOf(kernel.recovery_config, findings.tolerance, recoveries);
    const auto verdict = verdicts.find(kernel.id);
    findings.judgement =
        verdict != verdicts.end() ? verdict->second : Estimate(kernel.fault, findings.rounds);
    all.push_back(std::move(findings));
  }
  return all;
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
