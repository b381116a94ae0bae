// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_rounds.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/measure/compile_set.h"
#include "tuner/statistics/median.h"

namespace tune::server {
namespace {

// What follows in memory lies elsewhere in each round. Not a name that a spec can use.
constexpr char kOffsetName[] = "(offset)";
constexpr int64_t kOffsetStep = 4096;    // bytes
constexpr int64_t kOffsetSteps = 16384;  // 64 MiB in all

size_t TwinOf(gate::Revision side) { return side == gate::Revision::kBase ? 0 : 1; }

}  // namespace

absl::Status GateRounds::Renew(bool pair) {
  std::vector<size_t> twins;
  if (pair) twins.push_back(TwinOf(Side::kBase));
  twins.push_back(TwinOf(Side::kHead));
  return session_.Renew(twins);
}

absl::StatusOr<std::string> GateRounds::Prepare(Side side, const Variant& variant, uint64_t seed) {
  ProblemPlan plan = variant.problem;
  const int64_t bytes = kOffsetStep * static_cast<int64_t>(1 + random_() % kOffsetSteps);
  plan.buffers.insert(
      plan.buffers.begin(),
      BufferPlan{.name = kOffsetName, .dtype = DType::kU8, .count = bytes, .role = Role::kScratch});
  const absl::Status prepared =
      session_.Prepare(TwinOf(side), plan, variant.reference.artifact.binary, seed, IfFull::kFail);
  if (prepared.ok()) return "";
  if (!IsVariantsFault(prepared)) return prepared;
  return absl::StrCat(gate::ToText(side), ": ", prepared.message(),
                      absl::IsResourceExhausted(prepared)
                          ? "; both revisions must fit on the device at once, so gate a smaller "
                            "problem"
                          : "");
}

absl::StatusOr<bool> GateRounds::MeasureLeg(Side side, const Variant& variant, Outcome& outcome) {
  ASSIGN_OR_RETURN(Leg leg, session_.Measure(TwinOf(side),
                                             {ProgramOf(variant.plan, variant.compiled), policy_}));
  RunReport& report = leg.report;
  db::LegRow& row = outcome.legs.emplace_back();
  row.outcome = report.outcome;
  row.leg.revision = side;
  row.leg.clock = report.clock;
  row.leg.telemetry = report.telemetry;
  if (report.outcome != tune::Outcome::kOk) {
    row.message = absl::StrCat(gate::ToText(side), ": ", ToText(report.outcome), ": ",
                               report.message.substr(0, kMaxTrialMessageBytes));
    outcome.fault = row.message;
    return false;
  }
  if (leg.replaced) {
    // Another process in the middle of a round is another round: its samples do not count here.
    row.message = "its process was replaced";
    return false;
  }
  row.leg.samples_ns = std::move(report.samples_ns);
  row.leg.median_ns = EstimateMedian(row.leg.samples_ns).median;
  return true;
}

absl::StatusOr<GateRounds::Outcome> GateRounds::MeasureRound(const Variant* base,
                                                             const Variant& head) {
  Outcome outcome;
  const uint64_t seed = random_();  // the same inputs for both, other ones each round
  const bool mirrored = (random_() & 1) != 0;
  std::vector<Side> order = {Side::kHead, Side::kHead};
  if (base != nullptr) {
    order = {Side::kBase, Side::kHead, Side::kHead, Side::kBase};
    if (mirrored) order = {Side::kHead, Side::kBase, Side::kBase, Side::kHead};
    ASSIGN_OR_RETURN(outcome.fault, Prepare(Side::kBase, *base, seed));
  }
  if (outcome.fault.empty()) {
    ASSIGN_OR_RETURN(outcome.fault, Prepare(Side::kHead, head, seed));
  }
  if (!outcome.fault.empty()) return outcome;
  for (const Side side : order) {
    ASSIGN_OR_RETURN(const bool more,
                     MeasureLeg(side, side == Side::kBase ? *base : head, outcome));
    if (!more) break;
  }
  return outcome;
}

}  // namespace tune::server
