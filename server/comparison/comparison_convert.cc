// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_convert.h"

#include <cmath>

#include "server/comparison/comparison_verdict.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

v1::ComparedRound RoundProto(const db::LegRow& row) {
  auto proto = Encoded<v1::ComparedRound>(
      row, {"id", "job_id", "gate_kernel_id", "compared_id", "purpose", "leg"});
  Encode(row.leg, proto, {"revision"});
  return proto;
}

v1::ComparedKernel KernelProto(const ComparedFindings& findings, Turns turns) {
  auto proto = Encoded<v1::ComparedKernel>(
      findings.row,
      {"id", "comparison_id", "place", "problem", "work", "roof", "outcome", "message", "error"});
  Encode(findings.row.error, *proto.mutable_agreement_error());
  proto.set_outcome(static_cast<v1::Outcome>(findings.outcome));
  proto.set_message(Utf8(findings.message));
  proto.set_rounds(findings.rounds);
  if (findings.rounds > 0) {
    *proto.mutable_measurement() = ToProto(findings.measurement, Samples::kOmit);
  }
  const RatioInterval& ratio = findings.ratio;
  proto.set_ratio(ratio.ratio);
  // One round has no interval.
  if (std::isfinite(ratio.high)) {
    proto.set_ratio_low(ratio.low);
    proto.set_ratio_high(ratio.high);
  }
  if (turns == Turns::kOmit) return proto;
  for (const db::LegRow& row : findings.legs) *proto.add_round_results() = RoundProto(row);
  return proto;
}

v1::ComparedProblem ProblemProto(const std::vector<ComparedFindings>& kernels, Turns turns) {
  v1::ComparedProblem proto;
  const db::ComparedRow& first = kernels.front().row;
  Encode(first.problem, *proto.mutable_problem(), {});
  proto.set_work_bytes(first.work.bytes);
  proto.set_work_flops(first.work.flops);
  proto.set_work_peak(first.work.peak);
  proto.set_floor_ns(first.roof.floor_ns);
  proto.set_bound(static_cast<v1::Bound>(first.roof.bound));
  proto.set_ceiling(first.roof.ceiling);
  proto.set_ceiling_source(static_cast<v1::CeilingSource>(first.roof.source));
  for (const ComparedFindings& findings : kernels)
    *proto.add_kernels() = KernelProto(findings, turns);
  return proto;
}

}  // namespace

v1::Comparison ToProto(const db::ComparisonRow& run) {
  auto proto = Encoded<v1::Comparison>(run, {"job"});
  Encode(run.job, proto, {"id", "kind", "priority", "owner", "deaths"});
  proto.set_job_id(run.job.id);
  return proto;
}

v1::Comparison ToProto(const ComparisonEvidence& evidence, Turns turns) {
  v1::Comparison proto = ToProto(evidence.run);
  for (const std::vector<ComparedFindings>& kernels : evidence.problems) {
    if (!kernels.empty()) *proto.add_problems() = ProblemProto(kernels, turns);
  }
  for (const std::string& verdict : VerdictsOf(evidence)) proto.add_verdicts(Utf8(verdict));
  for (const std::string& warning : WarningsOf(evidence)) proto.add_warnings(Utf8(warning));
  return proto;
}

}  // namespace tune::server
