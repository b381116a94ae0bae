// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_evidence.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/wanted.h"
#include "tuner/roofline/roofline.h"
#include "tuner/statistics/median.h"

namespace tune::server {
namespace {

constexpr uint64_t kAnswerSamplesMax = 4'000'000;  // of an answer: 32 MiB

bool Counts(const db::LegRow& row) { return row.outcome == Outcome::kOk && row.leg.median_ns > 0; }

// A round is worth one figure: launches within a process tell of that process alone.
void Summarise(CacheMode cache_mode, ComparedFindings& findings) {
  std::vector<double> medians;
  uint64_t samples = 0;
  for (const db::LegRow& row : findings.legs) {
    if (!Counts(row)) continue;
    medians.push_back(row.leg.median_ns);
    samples += row.leg.samples_ns.size();
    findings.measurement.clock = row.leg.clock;
  }
  findings.rounds = static_cast<uint32_t>(medians.size());
  const Clock clock = findings.measurement.clock;
  Measurement measurement = tune::Summarise(std::move(medians));
  measurement.clock = clock;
  measurement.cache_mode = cache_mode;
  measurement.sample_count = samples;
  measurement.samples_ns.clear();
  findings.measurement = std::move(measurement);
}

void Conclude(ComparedFindings& findings) {
  findings.outcome = findings.row.outcome;
  findings.message = findings.row.message;
  for (const db::LegRow& row : findings.legs) {
    if (findings.outcome != Outcome::kOk || row.outcome == Outcome::kOk) continue;
    findings.outcome = row.outcome;
    findings.message = row.message;
  }
  const db::ComparedRow& compared = findings.row;
  if (!ApplyRoofline(compared.work, compared.roof, findings.measurement)) return;
  if (findings.outcome != Outcome::kOk) return;
  findings.outcome = Outcome::kAboveRoof;
  findings.message = absl::StrCat("faster than the measured ", ToText(compared.roof.bound),
                                  " ceiling allows for the declared work: not believed");
}

// Round by round: what a round does to all cancels.
RatioInterval RatioOf(const ComparedFindings& findings, const ComparedFindings& first) {
  std::map<int, double> of_first;
  for (const db::LegRow& row : first.legs) {
    if (Counts(row)) of_first[row.round] = row.leg.median_ns;
  }
  std::vector<double> own;
  std::vector<double> theirs;
  for (const db::LegRow& row : findings.legs) {
    const auto paired = of_first.find(row.round);
    if (!Counts(row) || paired == of_first.end()) continue;
    own.push_back(row.leg.median_ns);
    theirs.push_back(paired->second);
  }
  if (own.empty()) return {.ratio = 0};
  if (&findings == &first) return {.ratio = 1, .low = 1, .high = 1};
  return EstimateRatio(own, theirs);
}

}  // namespace

absl::StatusOr<ComparisonEvidence> LoadComparison(db::ComparisonStore& store, int64_t id,
                                                  Samples samples, const Cancelled& cancelled) {
  ComparisonEvidence evidence;
  uint64_t included = 0;
  ASSIGN_OR_RETURN(evidence.run, store.GetComparison(id));
  ASSIGN_OR_RETURN(std::vector<db::ComparedRow> rows, store.ComparedOf(id));
  for (db::ComparedRow& row : rows) {
    RETURN_IF_ERROR(CheckWanted(cancelled));
    if (evidence.problems.size() <= row.place) evidence.problems.resize(row.place + 1);
    ComparedFindings& findings = evidence.problems[row.place].emplace_back();
    findings.row = std::move(row);
    ASSIGN_OR_RETURN(findings.legs, store.ComparisonLegs(findings.row.id));
    Summarise(evidence.run.cache_mode, findings);
    Conclude(findings);
    for (db::LegRow& row : findings.legs) {
      if (samples == Samples::kOmit) row.leg.samples_ns = {};
      included += row.leg.samples_ns.size();
    }
    if (included > kAnswerSamplesMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("comparison ", id, " has more than ", kAnswerSamplesMax,
                       " samples, too many for one answer: ask for it without its rounds"));
    }
    findings.ratio = RatioOf(findings, evidence.problems[findings.row.place].front());
  }
  return evidence;
}

}  // namespace tune::server
