// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_convert.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/wire/nouns.h"
#include "tuner/statistics/series.h"

namespace tune::server {
namespace {

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

v1::GateState StateOf(db::JobState state) {
  switch (state) {
    case db::JobState::kDone: return v1::GATE_STATE_DONE;
    case db::JobState::kFailed: return v1::GATE_STATE_FAILED;
    case db::JobState::kCancelled: return v1::GATE_STATE_CANCELLED;
    default: return v1::GATE_STATE_RUNNING;
  }
}

v1::GateRules RulesToProto(const gate::Rules& rules) {
  v1::GateRules proto;
  proto.set_delta0(rules.delta0);
  proto.set_delta_max(rules.delta_max);
  proto.set_alpha(rules.alpha);
  proto.set_screen_rounds(static_cast<uint32_t>(rules.screen_rounds));
  return proto;
}

void SetJudgement(const gate::Judgement& judgement, v1::GateKernel& proto) {
  proto.set_verdict(static_cast<v1::GateVerdict>(judgement.verdict));
  proto.set_reason(Utf8(judgement.reason));
  proto.set_ratio(judgement.ratio);
  proto.set_ratio_low(judgement.ratio_low);
  proto.set_ratio_high(judgement.ratio_high);
  proto.set_deviation(judgement.deviation);
  proto.set_least_caught(judgement.least_caught);
  proto.set_rounds(static_cast<uint32_t>(judgement.rounds));
  proto.set_invalid_rounds(static_cast<uint32_t>(judgement.invalid_rounds));
  proto.set_flagged(judgement.flagged);
  proto.set_improved(judgement.improved);
  proto.set_p(judgement.p);
  proto.set_p_needed(judgement.p_needed);
  proto.set_clock_log_ratio(judgement.clock_log_ratio);
  proto.set_autocorrelation(judgement.autocorrelation);
  proto.set_bimodal(judgement.bimodal);
}

v1::GateRound RoundToProto(const EvidenceRound& round) {
  v1::GateRound proto;
  proto.set_stage(gate::ToText(round.stage));
  proto.set_log_ratio(round.result.log_ratio);
  proto.set_cycle_log_ratio(round.result.cycle_log_ratio.value_or(0));
  proto.set_base_ns(round.base_ns);
  proto.set_head_ns(round.head_ns);
  proto.set_invalid(Utf8(round.fault.empty() ? round.result.invalid : round.fault));
  return proto;
}

void SetRounds(const std::vector<const EvidenceRound*>& rounds, Rounds include,
               v1::GateKernel& proto) {
  std::vector<double> base_ns;
  std::vector<double> head_ns;
  for (const EvidenceRound* round : rounds) {
    if (include == Rounds::kInclude) *proto.add_round_results() = RoundToProto(*round);
    if (round->stage == gate::Stage::kRecovery) continue;
    if (round->base_ns > 0) base_ns.push_back(round->base_ns);
    if (round->head_ns > 0) head_ns.push_back(round->head_ns);
  }
  proto.set_base_ns(MedianOf(base_ns));
  proto.set_head_ns(MedianOf(head_ns));
}

void SetRecovery(const db::GateKernelRow& kernel, double tolerance,
                 const std::vector<const EvidenceRound*>& rounds, v1::GateKernel& proto) {
  std::vector<double> log_ratios;
  for (const EvidenceRound* round : rounds) {
    if (round->stage != gate::Stage::kRecovery) continue;
    if (round->fault.empty() && round->result.invalid.empty()) {
      log_ratios.push_back(round->result.log_ratio);
    }
  }
  if (log_ratios.empty()) return;
  const MeanInterval interval = EstimateMean(log_ratios);
  v1::GateRecovery* recovery = proto.mutable_recovery();
  *recovery->mutable_config() = ToProto(kernel.recovery_config);
  recovery->set_ratio(std::exp(interval.mean));
  recovery->set_ratio_low(std::exp(interval.low));
  recovery->set_ratio_high(std::exp(interval.high));
  recovery->set_recovers(interval.mean <= std::log1p(tolerance));
}

// What a study's or a recording's rounds say, where there is no verdict.
void SetEstimate(const std::vector<const EvidenceRound*>& rounds, v1::GateKernel& proto) {
  std::vector<double> log_ratios;
  for (const EvidenceRound* round : rounds) {
    if (round->fault.empty() && round->result.invalid.empty()) {
      log_ratios.push_back(round->result.log_ratio);
    }
  }
  proto.set_rounds(static_cast<uint32_t>(log_ratios.size()));
  proto.set_invalid_rounds(static_cast<uint32_t>(rounds.size() - log_ratios.size()));
  if (log_ratios.empty()) return;
  const MeanInterval interval = EstimateMean(log_ratios);
  proto.set_ratio(std::exp(interval.mean));
  proto.set_ratio_low(std::exp(interval.low));
  proto.set_ratio_high(std::exp(interval.high));
  proto.set_deviation(StandardDeviation(log_ratios));
  proto.set_autocorrelation(Lag1Autocorrelation(log_ratios));
}

}  // namespace

v1::GateRun ToProto(const db::GateRunRow& run) {
  v1::GateRun proto;
  proto.set_id(run.id);
  proto.set_kind(static_cast<v1::GateKind>(run.kind));
  proto.set_job_id(run.job.id);
  proto.set_state(StateOf(run.job.state));
  proto.set_message(Utf8(run.job.message));
  proto.set_device_id(run.job.device_id);
  proto.set_device_name(run.device_name);
  proto.set_device_uuid(run.device_uuid);
  proto.set_target(run.target);
  proto.set_driver(run.driver);
  proto.set_compiler(run.compiler);
  proto.set_cache_mode(ToProto(run.cache_mode));
  proto.set_base_label(Utf8(run.base_label));
  proto.set_head_label(Utf8(run.head_label));
  *proto.mutable_rules() = RulesToProto(run.rules);
  proto.set_seed(run.seed);
  proto.set_started_unix_ms(run.job.started_unix_ms);
  proto.set_finished_unix_ms(run.job.finished_unix_ms);
  return proto;
}

v1::GateRun ToProto(const GateEvidence& evidence,
                    const std::map<int64_t, gate::Judgement>& verdicts, Rounds include) {
  v1::GateRun proto = ToProto(evidence.run);
  std::map<int64_t, std::vector<const EvidenceRound*>> rounds;
  for (const EvidenceRound& round : evidence.rounds) rounds[round.gate_kernel_id].push_back(&round);
  for (const db::GateKernelRow& row : evidence.kernels) {
    v1::GateKernel* kernel = proto.add_kernels();
    kernel->set_name(row.name);
    *kernel->mutable_problem() = ToProto(row.problem);
    *kernel->mutable_base_config() = ToProto(row.base_config);
    *kernel->mutable_head_config() = ToProto(row.head_config);
    kernel->set_config_source(row.config_source);
    kernel->set_base_kernel_hash(row.base_kernel_hash);
    kernel->set_head_kernel_hash(row.head_kernel_hash);
    kernel->set_base_code(row.base_code);
    kernel->set_head_code(row.head_code);
    const double tolerance = row.tolerance < 0 ? evidence.run.rules.delta0 : row.tolerance;
    kernel->set_tolerance(tolerance);
    if (auto it = verdicts.find(row.id); it != verdicts.end()) {
      SetJudgement(it->second, *kernel);
      ++(*proto.mutable_verdicts())[gate::ToText(it->second.verdict)];
    } else {
      kernel->set_reason(Utf8(row.fault));
      if (!row.fault.empty()) kernel->set_verdict(v1::GATE_VERDICT_INVALID);
      SetEstimate(rounds[row.id], *kernel);
    }
    SetRounds(rounds[row.id], include, *kernel);
    SetRecovery(row, tolerance, rounds[row.id], *kernel);
  }
  return proto;
}

v1::GateProgress ToProto(const GateStep& step) {
  v1::GateProgress proto;
  proto.set_phase(step.phase);
  proto.set_kernel(step.kernel);
  proto.set_rounds_done(step.rounds_done);
  proto.set_rounds_planned(step.rounds_planned);
  proto.set_elapsed_seconds(step.elapsed_seconds);
  proto.set_remaining_seconds(step.remaining_seconds);
  return proto;
}

v1::BaselineKernel ToProto(const db::BaselineRow& row) {
  v1::BaselineKernel proto;
  proto.set_baseline(row.name);
  proto.set_kernel_name(row.kernel_name);
  proto.set_kernel_hash(row.kernel_hash);
  proto.set_label(Utf8(row.label));
  proto.set_set_unix_ms(row.set_unix_ms);
  return proto;
}

}  // namespace tune::server
