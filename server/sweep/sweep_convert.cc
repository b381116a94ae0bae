// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_convert.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "server/sweep/submission.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

void ProgressToProto(const SweepProgress& from, v1::SweepProgress& to) {
  Encode(from, to, {"outcomes"});
  for (const auto& [outcome, count] : from.outcomes) {
    (*to.mutable_outcomes())[ToText(outcome)] = count;
  }
}

absl::Status ProgressFromProto(const v1::SweepProgress& from, SweepProgress& to) {
  for (int value = v1::OUTCOME_OK; value <= v1::OUTCOME_ABOVE_ROOF; ++value) {
    const Outcome outcome = static_cast<Outcome>(value);
    const auto it = from.outcomes().find(ToText(outcome));
    if (it != from.outcomes().end()) to.outcomes[outcome] = it->second;
  }
  return Decode(from, to, {"outcomes"});
}

// A stored sweep has these from its trials.
constexpr wire::Names kTrialsOfResult = {"best", "default_trial", "ties"};

void ResultToProto(const SweepResult& from, const SweepFigures& figures, v1::SweepResult& to) {
  Encode(from, to, kTrialsOfResult);
  Encode(figures, to);
  *to.mutable_best() = ToProto(from.best);
  for (const Trial& tie : from.ties) *to.add_ties() = ToProto(tie);
  if (const Trial* trial = OkDefault(from)) *to.mutable_default_trial() = ToProto(*trial);
}

// Converts the parts of a sweep that have no column in its row.
void SearchToProto(const SweepView& view, v1::Sweep& proto) {
  if (view.search.trials_without_improvement > 0 || view.search.improvement_chance_min > 0) {
    v1::StopRules& stop = *proto.mutable_stop();
    stop.set_trials_without_improvement(
        static_cast<uint32_t>(view.search.trials_without_improvement));
    stop.set_improvement_chance_min(view.search.improvement_chance_min);
  }
  proto.set_no_warm_start(view.search.no_warm_start);
  proto.set_prior_digest(view.search.prior_digest);
  proto.set_embedded(view.embedded);
  proto.set_interrupted(view.interrupted);
  if (!view.warm_sources.empty()) {
    v1::WarmStart& warm_start = *proto.mutable_warm_start();
    warm_start.set_observations(static_cast<uint32_t>(view.warm_observations));
    for (const std::string& source : view.warm_sources) warm_start.add_sources(Utf8(source));
  }
  proto.mutable_fixed_params()->Add(view.fixed_params.begin(), view.fixed_params.end());
  proto.set_end(static_cast<v1::SweepEnd>(view.end));
  proto.set_end_message(Utf8(view.end_message));
}

void SearchFromProto(const v1::Sweep& proto, SweepView& view) {
  view.search = {.trials_without_improvement = proto.stop().trials_without_improvement(),
                 .improvement_chance_min = proto.stop().improvement_chance_min(),
                 .no_warm_start = proto.no_warm_start(),
                 .spread = proto.device_id() == kAllDevices,
                 .prior_digest = proto.prior_digest()};
  view.warm_observations = proto.warm_start().observations();
  view.warm_sources = {proto.warm_start().sources().begin(), proto.warm_start().sources().end()};
  view.fixed_params = {proto.fixed_params().begin(), proto.fixed_params().end()};
  view.end = static_cast<SweepEnd>(proto.end());
  view.end_message = proto.end_message();
  view.embedded = proto.embedded();
  view.interrupted = proto.interrupted();
}

}  // namespace

v1::Sweep ToProto(const SweepView& view) {
  const db::JobRow& job = view.row.job;
  auto proto =
      Encoded<v1::Sweep>(view.row, {"job", "name_space", "budget_trials", "budget_seconds", "fresh",
                                    "idempotency_key", "best_trial_id", "default_trial_id",
                                    "tie_trial_ids", "device_ids", "spent_seconds", "summary"});
  Encode(job, proto, {"id", "kind", "owner", "subject", "started_unix_ms", "deaths"});
  proto.set_job_id(job.id);
  if (view.waiting) proto.set_state(v1::JOB_STATE_WAITING);
  proto.mutable_budget()->set_trials(static_cast<uint32_t>(view.row.budget_trials));
  proto.mutable_budget()->set_seconds(view.row.budget_seconds);
  ProgressToProto(view.progress, *proto.mutable_progress());
  if (view.result) {
    ResultToProto(*view.result, FiguresOf(*view.result), *proto.mutable_result());
  }
  SearchToProto(view, proto);
  proto.set_confirm_seconds_max(ConfirmSecondsMax(view.row));
  return proto;
}

std::string SummaryText(const SweepView& view) {
  v1::Sweep summary;
  ProgressToProto(view.progress, *summary.mutable_progress());
  if (view.result) Encode(*view.result, *summary.mutable_result(), kTrialsOfResult);
  SearchToProto(view, summary);
  if (view.search.spread) summary.set_device_id(kAllDevices);
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
  RETURN_IF_ERROR(ProgressFromProto(summary.progress(), view.progress));
  SearchFromProto(summary, view);
  if (!summary.has_result()) return view;
  RETURN_IF_ERROR(Decode(summary.result(), view.result.emplace(), kTrialsOfResult));
  return view;
}

}  // namespace tune::server
