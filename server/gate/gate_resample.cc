// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_resample.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tuner/statistics/series.h"

namespace tune::server {
namespace {

constexpr size_t kRoundsLeast = 8;  // with fewer, draws would repeat too much

struct Recorded {
  std::string name;
  std::vector<gate::RoundResult> rounds;
};

std::vector<Recorded> Collect(const std::vector<GateEvidence>& studies) {
  std::vector<Recorded> kernels;
  for (const GateEvidence& study : studies) {
    for (const db::GateKernelRow& row : study.kernels) {
      Recorded kernel{.name = row.name};
      for (const EvidenceRound& round : study.rounds) {
        if (round.gate_kernel_id != row.id || !round.fault.empty()) continue;
        if (round.result.invalid.empty()) kernel.rounds.push_back(round.result);
      }
      if (kernel.rounds.size() >= kRoundsLeast) kernels.push_back(std::move(kernel));
    }
  }
  return kernels;
}

double Autocorrelation(const Recorded& kernel) {
  std::vector<double> values;
  for (const gate::RoundResult& round : kernel.rounds) values.push_back(round.log_ratio);
  return Lag1Autocorrelation(values);
}

}  // namespace

absl::StatusOr<Resampled> Resample(const std::vector<GateEvidence>& studies, uint32_t runs,
                                   uint64_t seed, const Cancelled& cancelled) {
  const std::vector<Recorded> kernels = Collect(studies);
  if (kernels.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no kernel has ", kRoundsLeast,
                     " valid rounds to draw from; take more with `tunectl gate "
                     "--base REV --head REV --study 24`"));
  }
  Resampled result{.runs = runs, .kernels = static_cast<uint32_t>(kernels.size())};
  for (const Recorded& kernel : kernels) {
    result.rounds += static_cast<uint32_t>(kernel.rounds.size());
    result.autocorrelation_max = std::max(result.autocorrelation_max, Autocorrelation(kernel));
  }
  gate::Rules rules = studies.front().run.rules;
  rules.screen_rounds = gate::Rules().screen_rounds;  // a study's is the number of its rounds
  std::mt19937_64 random(seed);
  uint64_t flagged = 0;
  for (uint32_t run = 0; run < runs; ++run) {
    gate::Gate gate(rules, std::vector<double>(kernels.size(), -1));
    for (auto wanted = gate.Wanted(); !wanted.empty(); wanted = gate.Wanted()) {
      if (cancelled()) return absl::CancelledError("cancelled while gates were being drawn");
      for (const size_t index : wanted) {
        const auto& rounds = kernels[index].rounds;
        gate.Add(index, rounds[random() % rounds.size()]);
      }
    }
    flagged += static_cast<uint64_t>(gate.flagged());
    bool failed = false;
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (gate.Judge(i).verdict != gate::Verdict::kFail) continue;
      ++result.failures[kernels[i].name];
      failed = true;
    }
    result.failed_runs += failed ? 1 : 0;
  }
  result.flagged_per_run = static_cast<double>(flagged) / std::max(runs, 1u);
  return result;
}

}  // namespace tune::server
