// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweeps.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/access/discretion.h"
#include "server/jobs/left_job.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr char kInterrupted[] =
    "its tunectl was ended; the same command again goes on from its trials, and nothing else does";
constexpr uint32_t kTrialsAtOnce = 1000;
// Sweeps that are searched and named in the error for an unknown sweep.
constexpr uint32_t kLookedThrough = 100;
constexpr size_t kNamed = 5;
constexpr int kPutBackMax = 3;

void AddSweep(const SweepView& view, v1::JobEvent& event) {
  v1::Sweep sweep = ToProto(view);
  HideUnlessSeen(view.row.name_space, sweep);
  event.add_results()->PackFrom(sweep);
}

// The memory that the prior takes until the sweep has ended.
size_t PriorBytes(const SearchOptions& search) {
  return search.prior == nullptr ? 0 : BytesOf(*search.prior);
}

// How the search of a sweep was asked for.
std::string SearchText(const SearchOptions& search) {
  return SummaryText(SweepView{.search = search});
}

// ALREADY_EXISTS: a principal used the idempotency key of a sweep again, for something else. The
// priority and which of the devices alike it runs on may differ. The daemon's own keys, which have
// no slash, say themselves what they are for.
absl::Status CheckSameRequest(const SweepView& known, const Submission& asked) {
  const db::SweepRow& a = known.row;
  const db::SweepRow& b = asked.sweep;
  const size_t slash = b.idempotency_key.find('/');
  const bool same = a.kernel_hash == b.kernel_hash && a.kernel_name == b.kernel_name &&
                    a.problem == b.problem && a.device_name == b.device_name &&
                    a.strategy == b.strategy && a.budget_trials == b.budget_trials &&
                    a.budget_seconds == b.budget_seconds && a.seed == b.seed &&
                    a.cache_mode == b.cache_mode && a.fresh == b.fresh &&
                    SearchText(known.search) == SearchText(asked.search);
  if (slash == std::string::npos || same) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "the idempotency key '", b.idempotency_key.substr(slash + 1), "' is that of sweep ", a.id,
      ", of ", a.job.subject, ", which was asked for otherwise: take another key"));
}

}  // namespace

SweepView SweepWork::view() const {
  MutexLock lock(mutex_);
  SweepView view = view_;
  if (const std::shared_ptr<Job> job = job_.lock()) {
    const JobView now = job->view();
    view.row.job = now.row;
    view.waiting = now.waiting;
  }
  return view;
}

void SweepWork::Update(SweepView view) {
  std::shared_ptr<Job> job;
  {
    MutexLock lock(mutex_);
    view.row.job = std::move(view_.row.job);
    view_ = std::move(view);
    job = job_.lock();
  }
  if (job != nullptr) job->feed().Touch();
}

std::shared_ptr<Job> SweepWork::job() const {
  MutexLock lock(mutex_);
  return job_.lock();
}

void SweepWork::AddTrial(const Trial& trial) {
  const std::shared_ptr<Job> job = this->job();
  if (job == nullptr) return;
  job->control.got_on = true;
  job->feed().AddStep(std::make_shared<v1::Trial>(ToProto(trial)));
}

bool SweepWork::WaitsFor(const std::string& device_id) {
  const std::shared_ptr<Job> job = this->job();
  if (job == nullptr || sweeps_.scheduler_.WhyNotOn(*job, device_id).empty()) return false;
  MutexLock lock(mutex_);
  return ++put_back_ <= kPutBackMax;
}

JobWork::End SweepWork::Run(JobContext& context) {
  {
    MutexLock lock(mutex_);
    if (view_.search.spread) offer_ = std::make_shared<HelpOffer>();
  }
  End end = sweeps_.run_(*this, context);
  if (const std::shared_ptr<HelpOffer> offer = this->offer()) offer->Close();
  return end;
}

std::shared_ptr<HelpOffer> SweepWork::offer() const {
  MutexLock lock(mutex_);
  return offer_;
}

bool SweepWork::wants_help() const {
  const std::shared_ptr<HelpOffer> offer = this->offer();
  return offer != nullptr && !offer->is_closed();
}

absl::Status SweepWork::Help(JobContext& context) {
  const std::shared_ptr<HelpOffer> offer = this->offer();
  if (offer == nullptr) return absl::OkStatus();
  return offer->Help(context.device_id(), context.cancelled());
}

absl::Status SweepWork::Store(db::JobStore& /*jobs*/, const db::JobRow& row) {
  SweepView view = this->view();
  view.row.job = row;
  if (db::IsFinished(row.state)) view.row.summary = SummaryText(view);
  RETURN_IF_ERROR(sweeps_.store_.UpdateSweep(view.row));
  MutexLock lock(mutex_);
  view_.row = std::move(view.row);
  return absl::OkStatus();
}

void SweepWork::Ended(const absl::Status&) { sweeps_.Forget(view()); }

void SweepWork::AddNews(const Feed::News& news, v1::JobEvent& event) const {
  const SweepView view = this->view();
  AddSweep(view, event);
  for (const Feed::Step& step : news.steps) {
    v1::Trial trial = static_cast<const v1::Trial&>(*step);
    HideUnlessSeen(view.row.name_space, trial);
    event.add_results()->PackFrom(trial);
  }
}

std::string SweepWork::Name() const {
  MutexLock lock(mutex_);
  return absl::StrCat("sweep ", view_.row.id);
}

size_t SweepWork::source_bytes() const {
  MutexLock lock(mutex_);
  return PriorBytes(view_.search);
}

std::string SweepWork::WhyNotOn(const std::string& device_id) const {
  db::SweepRow row;
  {
    MutexLock lock(mutex_);
    row.device_name = view_.row.device_name;
    row.device_ids = view_.row.device_ids;
  }
  return sweeps_.WhyNotOn(row, device_id);
}

absl::StatusOr<std::unique_ptr<Sweeps>> Sweeps::Start(const Options& options, db::Store& store,
                                                      Scheduler& scheduler, RunSweepJob run) {
  auto sweeps = std::unique_ptr<Sweeps>(new Sweeps(options, store, scheduler, std::move(run)));
  if (store.writable() && !options.shared) RETURN_IF_ERROR(sweeps->Inherit());
  return sweeps;
}

absl::Status Sweeps::Inherit() {
  ASSIGN_OR_RETURN(std::vector<db::SweepRow> rows, store_.UnfinishedSweeps());
  std::vector<SweepView> left;
  for (db::SweepRow& row : rows) {
    absl::StatusOr<SweepView> view = FromSummaryText(row);
    if (!view.ok()) {
      spdlog::error("sweep {} is left as it is: {}", row.id, view.status().ToString());
      store_.NoteUnreadable({"sweep", row.id, std::string(view.status().message())});
    } else if (view->embedded) {
      view->interrupted = true;
      view->row.job.message = kInterrupted;
      RETURN_IF_ERROR(EndFromTrials(*view));
    } else if (!options_.left.embedded && MayRunAgain(row)) {
      view->row = row;
      left.push_back(*std::move(view));
    }
  }
  // A sweep that a daemon died with may kill this one too, so others go first.
  std::stable_sort(left.begin(), left.end(), [](const SweepView& a, const SweepView& b) {
    return a.row.job.deaths < b.row.job.deaths;
  });
  for (const SweepView& view : left) {
    spdlog::info("sweep {} ({}) is taken up again", view.row.id, view.row.kernel_name);
    std::vector<std::string> devices = view.row.device_ids;
    if (devices.empty()) devices = {view.row.job.device_id};  // of a daemon before this
    Enqueue(view, std::move(devices));
  }
  return absl::OkStatus();
}

absl::Status Sweeps::TakeUp(int64_t job_id, std::vector<std::string> devices) {
  ASSIGN_OR_RETURN(db::SweepRow row, store_.SweepOfJob(job_id));
  ASSIGN_OR_RETURN(SweepView view, FromSummaryText(row));
  if (!MayRunAgain(row)) return absl::OkStatus();
  view.row = std::move(row);
  view.row.device_ids = devices;
  spdlog::info("sweep {} ({}) is taken up", view.row.id, view.row.kernel_name);
  Enqueue(view, std::move(devices));
  return absl::OkStatus();
}

std::string Sweeps::WhyNotOn(const db::SweepRow& row, const std::string& device_id) const {
  if (!options_.known_devices) return "";
  const auto known = options_.known_devices();
  // Empty for a device that was not opened yet.
  const auto name_of = [&](const std::string& id) -> std::string {
    const auto is_it = [&](const DeviceStatus& status) { return status.id == id; };
    const auto found = std::find_if(known->begin(), known->end(), is_it);
    return found == known->end() ? "" : found->info.name;
  };
  const auto is_another = [&](const std::string& id) {
    const std::string name = name_of(id);
    return !name.empty() && name != row.device_name;
  };
  // If all of its devices are others now, the sweep runs on one of them and fails with the reason.
  if (!is_another(device_id) ||
      std::all_of(row.device_ids.begin(), row.device_ids.end(), is_another)) {
    return "";
  }
  return absl::StrCat("device ", device_id, " is ", name_of(device_id), " now, not ",
                      row.device_name);
}

absl::Status Sweeps::AddUpTrials(SweepView& view) {
  db::JobRow& job = view.row.job;
  view.progress.done = 0;
  view.progress.outcomes.clear();
  std::optional<Trial> best;
  int64_t last_id = 0;
  for (size_t count = kTrialsAtOnce; count == kTrialsAtOnce;) {
    ASSIGN_OR_RETURN(std::vector<Trial> trials,
                     store_.TrialsAfter(view.row.id, last_id, kTrialsAtOnce));
    count = trials.size();
    for (Trial& trial : trials) {
      last_id = trial.id;
      job.finished_unix_ms = std::max(job.finished_unix_ms, trial.finished_unix_ms);
      if (trial.purpose != TrialPurpose::kSearch) continue;
      ++view.progress.done;
      ++view.progress.outcomes[trial.outcome];
      const bool faster =
          !best || trial.measurement.latency_ns_median < best->measurement.latency_ns_median;
      if (trial.outcome == Outcome::kOk && faster) best = std::move(trial);
    }
  }
  if (best) view.row.best_trial_id = best->id;
  return absl::OkStatus();
}

absl::Status Sweeps::EndFromTrials(SweepView& view) {
  RETURN_IF_ERROR(AddUpTrials(view));
  db::JobRow& job = view.row.job;
  if (job.finished_unix_ms == 0) job.finished_unix_ms = job.created_unix_ms;
  job.state = db::JobState::kCancelled;
  view.row.summary = SummaryText(view);
  return store_.UpdateSweep(view.row);
}

bool Sweeps::MayRunAgain(db::SweepRow& row) {
  const bool changed = CountDeath(options_.left, row.job);
  const bool failed = db::IsFinished(row.job.state);
  if (!changed) return true;
  if (const absl::Status stored = store_.UpdateSweep(row); !stored.ok()) {
    // Run without the count on the disk, it could kill daemons for ever.
    spdlog::error("sweep {} is left as it is: {}", row.id, stored.ToString());
    return false;
  }
  return !failed;
}

absl::StatusOr<SweepView> Sweeps::Submit(const Submission& submission,
                                         const KeepSources& keep_sources) {
  const std::string& key = submission.sweep.idempotency_key;
  if (const auto known = FindByKey(key)) {
    const SweepView view = known->view();
    RETURN_IF_ERROR(CheckSameRequest(view, submission));
    return view;
  }
  ASSIGN_OR_RETURN(const Scheduler::Place place,
                   scheduler_.TakePlace(submission.sweep.job.owner, PriorBytes(submission.search)));
  if (keep_sources) RETURN_IF_ERROR(keep_sources());
  RETURN_IF_ERROR(store_.PutKernel(submission.kernel));
  SweepView asked{
      .row = submission.sweep, .embedded = options_.left.embedded, .search = submission.search};
  asked.progress.space_size = submission.space_size;
  asked.progress.planned = PlannedTrials(asked.row, submission.space_size);
  asked.row.device_ids = submission.device_ids;
  asked.row.summary = SummaryText(asked);
  ASSIGN_OR_RETURN(const db::SweepRow row, store_.AddSweep(std::move(asked.row)));
  ASSIGN_OR_RETURN(const SweepView stored, FromSummaryText(row));
  RETURN_IF_ERROR(CheckSameRequest(stored, submission));
  if (!db::IsFinished(row.job.state)) {
    SweepView view = stored;
    view.search.prior = submission.search.prior;
    Enqueue(view, submission.device_ids);
  }
  return Get(row.id);
}

void Sweeps::Enqueue(const SweepView& view, std::vector<std::string> devices) {
  const int64_t id = view.row.id;
  auto work = std::make_shared<SweepWork>(*this, view);
  auto job = std::make_shared<Job>(view.row.job, std::move(devices), work);
  {
    MutexLock lock(work->mutex_);
    work->job_ = job;
  }
  {
    MutexLock lock(mutex_);
    if (finished_.contains(id) || !live_.emplace(id, work).second) return;
  }
  if (scheduler_.Enqueue(job) != nullptr) return;
  MutexLock lock(mutex_);  // the daemon stops
  live_.erase(id);
}

std::shared_ptr<SweepWork> Sweeps::FindLive(int64_t id) const {
  MutexLock lock(mutex_);
  const auto it = live_.find(id);
  return it == live_.end() ? nullptr : it->second;
}

std::shared_ptr<SweepWork> Sweeps::FindByKey(const std::string& idempotency_key) const {
  if (idempotency_key.empty()) return nullptr;
  MutexLock lock(mutex_);
  for (const auto& [id, work] : live_) {
    if (work->view().row.idempotency_key == idempotency_key) return work;
  }
  return nullptr;
}

void Sweeps::Forget(SweepView view) {
  const int64_t id = view.row.id;
  view.waiting = false;
  view.search.prior = nullptr;
  MutexLock lock(mutex_);
  live_.erase(id);
  if (!db::IsFinished(view.row.job.state)) return;  // it goes on at another host
  finished_.insert_or_assign(id, std::move(view));
  if (finished_.size() > options_.views_kept_max) finished_.erase(finished_.begin());
}

absl::Status Sweeps::CancelLeft(int64_t job_id) {
  ASSIGN_OR_RETURN(SweepView view, OfJob(job_id));
  if (db::IsFinished(view.row.job.state)) return absl::OkStatus();
  view.row.job.message.clear();
  return EndFromTrials(view);
}

absl::Status NoSuchSweep(db::Store& store, int64_t id) {
  const absl::StatusOr<std::vector<db::SweepRow>> rows = store.ListSweeps(kLookedThrough);
  std::string there = "there are none";
  for (size_t i = 0; rows.ok() && i < rows->size(); ++i) {
    const db::SweepRow& row = (*rows)[i];
    if (i < kNamed) there = i == 0 ? "the newest: " : there + ", ";
    if (i < kNamed) absl::StrAppend(&there, row.id);
    if (row.job.id == id) absl::StrAppend(&there, "; job ", id, " is sweep ", row.id);
  }
  return absl::NotFoundError(
      absl::StrCat("no sweep ", id, "; ", there, "; see `tunectl sweep list`"));
}

absl::StatusOr<SweepView> Sweeps::Get(int64_t id) {
  if (const auto live = FindLive(id)) return live->view();
  {
    MutexLock lock(mutex_);
    if (auto it = finished_.find(id); it != finished_.end()) return it->second;
  }
  absl::StatusOr<db::SweepRow> row = store_.GetSweep(id);
  if (absl::IsNotFound(row.status())) {
    return NoSuchSweep(store_, id);
  }
  RETURN_IF_ERROR(row.status());
  return ViewOf(*row);
}

absl::StatusOr<SweepView> Sweeps::OfJob(int64_t job_id) {
  {
    MutexLock lock(mutex_);
    for (const auto& [id, work] : live_) {
      if (SweepView view = work->view(); view.row.job.id == job_id) return view;
    }
    for (const auto& [id, view] : finished_) {
      if (view.row.job.id == job_id) return view;
    }
  }
  ASSIGN_OR_RETURN(const db::SweepRow row, store_.SweepOfJob(job_id));
  absl::StatusOr<SweepView> view = ViewOf(row);
  if (absl::IsDataLoss(view.status())) {
    store_.NoteUnreadable({"sweep", row.id, std::string(view.status().message())});
  }
  return view;
}

absl::StatusOr<SweepView> Sweeps::ViewOf(const db::SweepRow& row) {
  ASSIGN_OR_RETURN(SweepView view, FromSummaryText(row));
  view.row.job = AsLeft(std::move(view.row.job), options_.other_owner);
  if (!db::IsFinished(row.job.state) && options_.other_owner.empty() && view.embedded) {
    view.interrupted = true;
    view.row.job.state = db::JobState::kCancelled;
    view.row.job.message = kInterrupted;
  }
  // Its last summary is of its start.
  if (!db::IsFinished(row.job.state)) RETURN_IF_ERROR(AddUpTrials(view));
  if (view.row.best_trial_id == 0) {
    view.result.reset();
    return view;
  }
  if (!view.result) view.result.emplace();
  ASSIGN_OR_RETURN(view.result->best, store_.GetTrial(view.row.best_trial_id));
  if (row.default_trial_id != 0) {
    ASSIGN_OR_RETURN(view.result->default_trial, store_.GetTrial(row.default_trial_id));
  }
  for (int64_t tie_id : row.tie_trial_ids) {
    ASSIGN_OR_RETURN(Trial tie, store_.GetTrial(tie_id));
    view.result->ties.push_back(std::move(tie));
  }
  return view;
}

JobKind SweepKind(Sweeps& sweeps) {
  return {.kind = db::JobKind::kSweep,
          .name = "a sweep",
          .is_public = true,
          .find_results = [&sweeps](const db::JobRow& job, v1::JobEvent& event) -> absl::Status {
            ASSIGN_OR_RETURN(const SweepView view, sweeps.OfJob(job.id));
            AddSweep(view, event);
            return absl::OkStatus();
          },
          .cancel_left = [&sweeps](const db::JobRow& job) { return sweeps.CancelLeft(job.id); }};
}

}  // namespace tune::server
