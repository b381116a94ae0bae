// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_convert.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "server/sweep/submission.h"
#include "server/wire/nouns.h"
#include "tuner/sweep/winner.h"

namespace tune::server {
namespace {

void ProgressToProto(const SweepProgress& from, v1::SweepProgress* to) {
  to->set_space_size(from.space_size);
  to->set_planned(from.planned);
  to->set_done(from.done);
  to->set_reused(from.reused);
  for (const auto& [outcome, count] : from.outcomes) {
    (*to->mutable_outcomes())[ToText(outcome)] = count;
  }
  to->set_elapsed_seconds(from.elapsed_seconds);
  to->set_trials_per_second(from.trials_per_second);
  to->set_remaining_seconds(from.remaining_seconds);
  if (from.best_config) *to->mutable_best_config() = ToProto(*from.best_config);
  to->set_best_latency_ns(from.best_latency_ns);
  to->set_worker_restarts(from.worker_restarts);
  to->set_compile_cache_hits(from.compile_cache_hits);
}

SweepProgress ProgressFromProto(const v1::SweepProgress& from) {
  SweepProgress to;
  to.space_size = from.space_size();
  to.planned = from.planned();
  to.done = from.done();
  to.reused = from.reused();
  for (int value = v1::OUTCOME_OK; value <= v1::OUTCOME_ABOVE_ROOF; ++value) {
    const Outcome outcome = static_cast<Outcome>(value);
    auto it = from.outcomes().find(ToText(outcome));
    if (it != from.outcomes().end()) to.outcomes[outcome] = it->second;
  }
  to.elapsed_seconds = from.elapsed_seconds();
  to.trials_per_second = from.trials_per_second();
  if (from.has_best_config()) to.best_config = FromProto(from.best_config());
  to.best_latency_ns = from.best_latency_ns();
  to.worker_restarts = from.worker_restarts();
  to.compile_cache_hits = from.compile_cache_hits();
  return to;
}

// What a stored sweep cannot have from its trials.
void EvidenceToProto(const SweepResult& from, v1::SweepResult* to) {
  to->set_confirm_rounds(from.confirm_rounds);
  to->set_bound(from.bound);
  to->set_ceiling(from.ceiling);
  if (!from.bound.empty()) to->set_ceiling_source(from.ceiling_measured ? "measured" : "nominal");
}

void ResultToProto(const SweepResult& from, v1::SweepResult* to) {
  EvidenceToProto(from, to);
  *to->mutable_best() = ToProto(from.best);
  to->set_too_noisy(TooNoisyToTell(from.best.measurement));
  for (const Trial& tie : from.ties) *to->add_ties() = ToProto(tie);
  if (!from.default_trial || from.default_trial->outcome != Outcome::kOk) return;
  *to->mutable_default_trial() = ToProto(*from.default_trial);
  const double best_ns = from.best.measurement.latency_ns_median;
  if (best_ns > 0) {
    to->set_speedup_over_default(from.default_trial->measurement.latency_ns_median / best_ns);
  }
}

// What of a sweep is in no column of its row.
void SearchToProto(const SweepView& view, v1::Sweep& proto) {
  if (view.search.trials_without_improvement > 0 || view.search.improvement_chance_min > 0) {
    v1::StopRules& stop = *proto.mutable_stop();
    stop.set_trials_without_improvement(
        static_cast<uint32_t>(view.search.trials_without_improvement));
    stop.set_improvement_chance_min(view.search.improvement_chance_min);
  }
  proto.set_no_warm_start(view.search.no_warm_start);
  proto.set_embedded(view.embedded);
  if (view.interrupted) proto.set_state(v1::SWEEP_STATE_INTERRUPTED);
  if (!view.warm_sources.empty()) {
    v1::WarmStart& warm_start = *proto.mutable_warm_start();
    warm_start.set_observations(static_cast<uint32_t>(view.warm_observations));
    for (const std::string& source : view.warm_sources) warm_start.add_sources(Utf8(source));
  }
  proto.mutable_fixed_params()->Add(view.fixed_params.begin(), view.fixed_params.end());
  proto.set_end(view.end);
}

void SearchFromProto(const v1::Sweep& proto, SweepView& view) {
  view.search = {.trials_without_improvement = proto.stop().trials_without_improvement(),
                 .improvement_chance_min = proto.stop().improvement_chance_min(),
                 .no_warm_start = proto.no_warm_start()};
  view.warm_observations = proto.warm_start().observations();
  view.warm_sources = {proto.warm_start().sources().begin(), proto.warm_start().sources().end()};
  view.fixed_params = {proto.fixed_params().begin(), proto.fixed_params().end()};
  view.end = proto.end();
  view.embedded = proto.embedded();
  view.interrupted = proto.state() == v1::SWEEP_STATE_INTERRUPTED;
}

}  // namespace


v1::Sweep ToProto(const SweepView& view) {
  const db::SweepRow& row = view.row;
  v1::Sweep proto;
  proto.set_id(row.id);
  proto.set_kernel_name(row.kernel_name);
  proto.set_kernel_hash(row.kernel_hash);
  *proto.mutable_problem() = ToProto(row.problem);
  proto.set_device_id(row.job.device_id);
  proto.set_device_name(row.device_name);
  proto.set_target(row.target);
  proto.set_strategy(row.strategy);
  proto.mutable_budget()->set_trials(row.budget_trials);
  proto.mutable_budget()->set_seconds(row.budget_seconds);
  proto.set_seed(row.seed);
  proto.set_cache_mode(ToProto(row.cache_mode));
  proto.set_job_id(row.job.id);
  proto.set_priority(static_cast<v1::JobPriority>(row.job.priority));
  proto.set_state(view.waiting ? v1::SWEEP_STATE_WAITING
                               : static_cast<v1::SweepState>(row.job.state));
  proto.set_message(Utf8(row.job.message));
  proto.set_created_unix_ms(row.job.created_unix_ms);
  proto.set_finished_unix_ms(row.job.finished_unix_ms);
  ProgressToProto(view.progress, proto.mutable_progress());
  if (view.result) ResultToProto(*view.result, proto.mutable_result());
  SearchToProto(view, proto);
  proto.set_confirm_seconds_max(ConfirmSecondsMax(row));
  return proto;
}

std::string SummaryText(const SweepView& view) {
  v1::Sweep summary;
  ProgressToProto(view.progress, summary.mutable_progress());
  if (view.result) EvidenceToProto(*view.result, summary.mutable_result());
  SearchToProto(view, summary);
  std::string text;
  // Only fails for Any and malformed well-known types; a summary has neither.
  (void)google::protobuf::util::MessageToJsonString(summary, &text);
  return text;
}

absl::StatusOr<SweepView> FromSummaryText(const db::SweepRow& row) {
  SweepView view{.row = row};
  if (row.summary.empty()) return view;
  v1::Sweep summary;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // written by a newer daemon
  if (!google::protobuf::util::JsonStringToMessage(row.summary, &summary, options).ok()) {
    return absl::DataLossError(absl::StrCat("sweep ", row.id, ": the stored summary is damaged"));
  }
  view.progress = ProgressFromProto(summary.progress());
  SearchFromProto(summary, view);
  if (summary.has_result()) {
    view.result = SweepResult{.confirm_rounds = summary.result().confirm_rounds(),
                              .bound = summary.result().bound(),
                              .ceiling = summary.result().ceiling(),
                              .ceiling_measured = summary.result().ceiling_source() == "measured"};
  }
  return view;
}

}  // namespace tune::server
