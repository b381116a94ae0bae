// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_convert.h"

#include "server/wire/nouns.h"

namespace tune::server {
namespace {

v1::GateRound RoundProto(const EvidenceRound& round) {
  auto proto = Encoded<v1::GateRound>(round, {"gate_kernel_id", "result", "fault"});
  Encode(round.result, proto, {"base_log", "head_log", "invalid"});
  proto.set_invalid(Utf8(WhyInvalid(round)));
  return proto;
}

v1::GateKernel KernelProto(const db::GateKernelRow& row, const Findings& findings, Rounds include) {
  auto proto = Encoded<v1::GateKernel>(
      row, {"id", "run_id", "recovery_config", "tolerance", "identical", "fault"});
  Encode(findings.judgement, proto);
  proto.set_tolerance(findings.tolerance);
  proto.set_base_ns(findings.base_ns);
  proto.set_head_ns(findings.head_ns);
  if (findings.recovery) Encode(*findings.recovery, *proto.mutable_recovery());
  if (include == Rounds::kOmit) return proto;
  for (const EvidenceRound* round : findings.rounds) {
    *proto.add_round_results() = RoundProto(*round);
  }
  return proto;
}

}  // namespace

v1::GateRun ToProto(const db::GateRunRow& run) {
  auto proto = Encoded<v1::GateRun>(run, {"job"});
  Encode(run.job, proto,
         {"id", "kind", "priority", "owner", "subject", "created_unix_ms", "deaths"});
  proto.set_job_id(run.job.id);
  return proto;
}

v1::GateRun ToProto(const GateEvidence& evidence,
                    const std::map<int64_t, gate::Judgement>& verdicts, Rounds include) {
  v1::GateRun proto = ToProto(evidence.run);
  const std::vector<Findings> findings = FindingsOf(evidence, verdicts);
  for (size_t i = 0; i < findings.size(); ++i) {
    *proto.add_kernels() = KernelProto(evidence.kernels[i], findings[i], include);
  }
  for (const auto& [id, judgement] : verdicts) {
    ++(*proto.mutable_verdicts())[gate::ToText(judgement.verdict)];
  }
  return proto;
}

v1::GateProgress ToProto(const GateStep& step) { return Encoded<v1::GateProgress>(step); }

v1::BaselineKernel ToProto(const db::BaselineRow& row) {
  auto proto = Encoded<v1::BaselineKernel>(row, {"name"});
  proto.set_baseline(row.name);
  return proto;
}

}  // namespace tune::server
