// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_bench.h"

#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/statistics/median.h"

namespace tune::server {
namespace {

// What follows in memory lies elsewhere in each round. Not a name that a spec can use.
constexpr char kOffsetName[] = "(offset)";
constexpr int64_t kOffsetStep = 4096;    // bytes
constexpr int64_t kOffsetSteps = 16384;  // 64 MiB in all

// A variant that cannot be prepared, not a device that is lost.
bool IsVariantsFault(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
}

}  // namespace

GateBench::GateBench(const DeviceSupervisor& device, const Compilers& compilers,
                     const SamplePolicy& policy, uint64_t seed, const Cancelled& cancelled)
    : supervisors_{device.MakeTwin("base"), device.MakeTwin("head")},
      compilers_(compilers),
      policy_(policy),
      cancelled_(cancelled),
      random_(seed) {}

absl::Status GateBench::Renew(bool pair) {
  Close();
  std::future<absl::Status> base;
  if (pair) {
    base = std::async(std::launch::async,
                      [this] { return SupervisorOf(Side::kBase).Open(cancelled_); });
  }
  const absl::Status head = SupervisorOf(Side::kHead).Open(cancelled_);
  if (base.valid()) RETURN_IF_ERROR(base.get());
  return head;
}

void GateBench::Close() {
  for (const auto& supervisor : supervisors_) supervisor->Close();
}

absl::StatusOr<std::string> GateBench::Prepare(Side side, const GateVariant& variant,
                                               uint64_t seed) {
  ProblemPlan plan = variant.problem;
  const int64_t bytes = kOffsetStep * static_cast<int64_t>(1 + random_() % kOffsetSteps);
  plan.buffers.insert(
      plan.buffers.begin(),
      BufferPlan{.name = kOffsetName, .dtype = DType::kU8, .count = bytes, .role = Role::kScratch});
  // Its inputs are this round's, so its results are, too.
  absl::Status prepared = compilers_.ComputeReference(plan, seed, cancelled_);
  if (prepared.ok()) {
    prepared = SupervisorOf(side).Prepare(plan, variant.reference_binary, seed, cancelled_);
  }
  if (prepared.ok()) return "";
  if (!IsVariantsFault(prepared)) return prepared;
  return absl::StrCat(gate::ToText(side), ": ", prepared.message(),
                      absl::IsResourceExhausted(prepared)
                          ? "; both revisions must fit on the device at once, so gate a smaller "
                            "problem"
                          : "");
}

absl::StatusOr<bool> GateBench::MeasureLeg(Side side, const GateVariant& variant,
                                           Outcome& outcome) {
  DeviceSupervisor& supervisor = SupervisorOf(side);
  const uint64_t restarts = supervisor.Status().worker_restarts;
  ASSIGN_OR_RETURN(RunReport report,
                   supervisor.Run({WithBinary(variant.plan, variant.binary), policy_}, cancelled_));
  db::GateLegRow& row = outcome.legs.emplace_back();
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
  if (supervisor.Status().worker_restarts != restarts) {
    // Another process in the middle of a round is another round: its samples do not count here.
    row.message = "its process was replaced";
    return false;
  }
  row.leg.samples_ns = std::move(report.samples_ns);
  row.leg.median_ns = EstimateMedian(row.leg.samples_ns).median;
  return true;
}

absl::StatusOr<GateBench::Outcome> GateBench::MeasureRound(const GateVariant* base,
                                                           const GateVariant& head) {
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
