// SPDX-License-Identifier: Apache-2.0
// How a sweep ends: the best is measured again, and what becomes of it.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/artifacts/artifact_text.h"
#include "server/supervision/host_short.h"
#include "server/sweep/submission.h"
#include "server/sweep/sweep_convert.h"
#include "server/sweep/sweep_run.h"
#include "tuner/device_profile.h"
#include "tuner/sweep/winner.h"

namespace tune::server {
namespace {

constexpr absl::Duration kPause =
    absl::Seconds(30);  // of a sweep that cannot store what it measures
constexpr char kBestUnconfirmed[] = "the best so far was not measured again";

// A slow kernel gets fewer rounds than a fast one.
ConfirmPolicy ConfirmPolicyFor(const db::SweepRow& row) {
  ConfirmPolicy policy{.time = ProfileOfTarget(row.target).confirm_time};
  if (row.budget_seconds > 0) {
    policy.limit = absl::Seconds(ConfirmSecondsMax(row));
    policy.time = std::min(policy.time, policy.limit / 2);
  }
  return policy;
}

// The row's references to trials are those of the result.
void NoteResult(SweepView& view) {
  if (!view.result) return;
  db::SweepRow& row = view.row;
  row.best_trial_id = view.result->best.id;
  const Trial* const default_trial = OkDefault(*view.result);
  row.default_trial_id = default_trial == nullptr ? 0 : default_trial->id;
  row.tie_trial_ids.clear();
  for (const Trial& tie : view.result->ties) row.tie_trial_ids.push_back(tie.id);
}

}  // namespace

absl::Status SweepRun::Confirm() {
  view_.progress.remaining_seconds = 0;
  context_.Say("measuring the best configs again, in fresh processes");
  if (default_trial_) finalists_.push_back(*default_trial_);
  AddIncumbent();
  const Config default_config = default_config_.value_or(Config{});
  absl::StatusOr<Finals> measured =
      MeasureFinals(finalists_, default_config, ConfirmPolicyFor(view_.row), *evaluator_);
  if (absl::IsDeadlineExceeded(measured.status())) return absl::OkStatus();
  ASSIGN_OR_RETURN(Finals finals, std::move(measured));
  RETURN_IF_ERROR(CheckDevice(device_->Status().info));  // it may have been opened again
  for (Trial& trial : finals.trials) RETURN_IF_ERROR(StoreConfirmed(trial));
  ASSIGN_OR_RETURN(Winner winner, NameWinner(finals, default_config));

  const Roof& roof = evaluator_->roof();
  SweepResult result{.best = std::move(winner.best),
                     .default_trial = std::move(winner.default_trial),
                     .ties = std::move(winner.ties),
                     .confirm_rounds = static_cast<uint32_t>(finals.rounds),
                     .bound = roof.bound,
                     .ceiling = roof.ceiling,
                     .ceiling_source = roof.source};
  view_.result = std::move(result);
  confirmed_ = true;
  return absl::OkStatus();
}

// A sweep that saw little takes the place of a record only where it is measured to be faster.
void SweepRun::AddIncumbent() {
  const std::shared_ptr<const lookup::Index> index = records_.snapshot();
  const lookup::Answer found =
      index->Lookup(QueryOfKey(), [](const lookup::Record&) { return true; });
  if (found.match != lookup::Match::kExact || !space_->IndexOf(found.record->trial.config)) return;
  const auto is_it = [&](const Trial& one) { return one.config == found.record->trial.config; };
  if (std::any_of(finalists_.begin(), finalists_.end(), is_it)) return;
  Trial incumbent{.config = found.record->trial.config, .outcome = Outcome::kOk};
  incumbent.measurement.latency_ns_median = found.record->trial.measurement.latency_ns_median;
  finalists_.push_back(std::move(incumbent));
}

absl::Status SweepRun::StoreConfirmed(Trial& trial) {
  trial.sweep_id = view_.row.id;
  trial.purpose = TrialPurpose::kConfirm;
  if (trial.finished_unix_ms == 0) trial.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  return Append(trial);
}

absl::Status SweepRun::NameBestSoFar() {
  if (!summary_.best || evaluator_ == nullptr) return absl::OkStatus();
  const Roof& roof = evaluator_->roof();
  SweepResult result{.bound = roof.bound, .ceiling = roof.ceiling, .ceiling_source = roof.source};
  ASSIGN_OR_RETURN(result.best, store_.GetTrial(summary_.best->id));
  if (default_trial_) {
    ASSIGN_OR_RETURN(result.default_trial, store_.GetTrial(default_trial_->id));
  }
  view_.result = std::move(result);
  return absl::OkStatus();
}

// Why a sweep that ended by itself has no winner.
std::string SweepRun::Unconfirmed() const {
  if (summary_.best) {
    return absl::StrFormat(
        "the best could not be measured again within %.3g s, so no record was published: give a "
        "longer --budget, and what was tried is not tried again",
        ConfirmSecondsMax(view_.row));
  }
  if (summary_.done == 0 && summary_.end == SweepEnd::kTime) {
    const std::string cut = evaluator_ == nullptr ? "" : evaluator_->WhatWasCutShort();
    return absl::StrCat("no config was tried to its end: ",
                        cut.empty() ? "" : absl::StrCat(cut, ". If the kernel does end, "),
                        "give a longer --budget");
  }
  const auto most =
      std::max_element(summary_.outcomes.begin(), summary_.outcomes.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string ended = most == summary_.outcomes.end()
                                ? ""
                                : absl::StrCat(", ", most->second, " of ", summary_.done,
                                               " ended as ", ToText(most->first));
  return absl::StrCat("no config was ok", ended, ": `tunectl report sweep ", view_.row.id,
                      "` and `tunectl trial list --sweep ", view_.row.id, "` show why");
}

JobWork::End SweepRun::Ended(const absl::Status& status) {
  JobWork::End end{.status = status};
  if (!confirmed_) {
    if (absl::Status named = NameBestSoFar(); !named.ok()) {
      spdlog::error("sweep {}: {}", view_.row.id, named.ToString());
    }
  }
  if (IsHostShort(status)) paused_ = absl::StrCat("nothing compiles: ", status.message());
  const bool yields = stop_ && !context_.cancelled_for_good();
  const bool waits = !status.ok() && !stop_ && work_.WaitsFor(context_.device_id());
  if (!paused_.empty() && !context_.cancelled_for_good()) {
    // Trials that could not be stored are measured again.
    confirmed_ = false;
    view_.result.reset();
    end.interrupted = true;
    end.pause = kPause;
    end.message = absl::StrCat("paused, since ", paused_,
                               ". It goes on by itself; `tunectl sweep cancel` ends it");
  } else if ((yields || waits) && !confirmed_) {
    end.interrupted = true;
  } else if (confirmed_ || (status.ok() && !stop_)) {
    end.status = absl::OkStatus();
    if (!confirmed_) end.message = Unconfirmed();
  } else if (context_.cancelled_for_good()) {
    end.status = absl::CancelledError("cancelled");
    end.message = kBestUnconfirmed;
  }
  NoteResult(view_);
  if (!end.interrupted) view_.progress.remaining_seconds = 0;
  work_.Update(std::move(view_));
  return end;
}

std::optional<lookup::Record> SweepRun::Record() const {
  if (!confirmed_) return std::nullopt;
  const SweepResult& result = *view_.result;
  lookup::Record record{.key = key_,
                        .kernel_name = view_.row.kernel_name,
                        .trial = result.best,
                        .tie_count = static_cast<uint32_t>(result.ties.size()),
                        .published_unix_ms = absl::ToUnixMillis(absl::Now()),
                        .seed = view_.row.seed,
                        .submitter = view_.row.job.owner};
  for (const Trial& tie : result.ties) {
    record.ties.push_back({tie.config, tie.measurement.latency_ns_median});
  }
  if (const Trial* const trial = OkDefault(result)) {
    record.default_latency_ns = trial->measurement.latency_ns_median;
  }
  return record;
}

db::SweepRow SweepRun::DoneRow() const {
  SweepView done = view_;
  NoteResult(done);
  done.progress.remaining_seconds = 0;
  done.row.job = work_.view().row.job;
  done.row.job.state = db::JobState::kDone;
  done.row.job.message.clear();
  done.row.job.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  done.row.summary = SummaryText(done);
  return std::move(done.row);
}

absl::Status SweepRun::NotPublished(const absl::Status& why) {
  confirmed_ = false;
  view_.result.reset();
  spdlog::error("sweep {}: its record was not published: {}", view_.row.id, why.ToString());
  return absl::Status(
      why.code(), absl::StrCat("the best was measured again, but its record could not be "
                               "published: ",
                               why.message(),
                               ". Submit the sweep again, and what was tried is not tried again"));
}

absl::StatusOr<std::string> SweepRun::Artifact(const lookup::Record& record) const {
  const std::optional<Program> program = evaluator_->MeasuredProgram(record.trial.config);
  if (!program) return absl::NotFoundError("its program was not kept");
  return ArtifactText(record.key, record.kernel_name, record.trial.config, *program);
}

}  // namespace tune::server
