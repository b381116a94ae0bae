// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/sweep_queue.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/store_faults.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"
#include "tuner/steady_time.h"

namespace tune::server {
namespace {

constexpr std::chrono::seconds kStoreAgain(1);

constexpr char kLeft[] =
    "interrupted; a daemon takes it up when it starts, and the same command again continues it";

constexpr char kInterrupted[] =
    "its tunectl was ended; the same command again goes on from its trials, and nothing else does";
constexpr uint32_t kTrialsAtOnce = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<SweepQueue>> SweepQueue::Start(const Options& options,
                                                              db::Store& store, WatchTicker& ticker,
                                                              RunSweepJob run) {
  auto queue = std::unique_ptr<SweepQueue>(new SweepQueue(options, store, ticker, std::move(run)));
  if (store.writable()) RETURN_IF_ERROR(queue->Inherit());
  return queue;
}

absl::Status SweepQueue::Inherit() {
  ASSIGN_OR_RETURN(std::vector<db::SweepRow> rows, store_.UnfinishedSweeps());
  std::vector<SweepView> left;
  for (db::SweepRow& row : rows) {
    absl::StatusOr<SweepView> view = FromSummaryText(row);
    if (!view.ok()) {
      spdlog::error("sweep {} is left as it is: {}", row.id, view.status().ToString());
      store_.NoteUnreadable({"sweep", row.id, std::string(view.status().message())});
    } else if (view->embedded) {
      RETURN_IF_ERROR(Interrupt(*std::move(view)));
    } else if (!options_.embedded && MayRunAgain(row)) {
      view->row = row;
      left.push_back(*std::move(view));
    }
  }
  // What a daemon died with may kill this one too: others first.
  std::stable_sort(left.begin(), left.end(), [](const SweepView& a, const SweepView& b) {
    return a.row.deaths < b.row.deaths;
  });
  for (const SweepView& view : left) {
    spdlog::info("sweep {} ({}) is taken up again", view.row.id, view.row.kernel_name);
    Enqueue(view);
  }
  return absl::OkStatus();
}

absl::Status SweepQueue::Interrupt(SweepView view) {
  std::optional<Trial> best;
  int64_t last_id = 0;
  for (size_t count = kTrialsAtOnce; count == kTrialsAtOnce;) {
    ASSIGN_OR_RETURN(std::vector<Trial> trials,
                     store_.TrialsAfter(view.row.id, last_id, kTrialsAtOnce));
    count = trials.size();
    for (Trial& trial : trials) {
      last_id = trial.id;
      view.row.finished_unix_ms = std::max(view.row.finished_unix_ms, trial.finished_unix_ms);
      if (trial.purpose != TrialPurpose::kSearch) continue;
      ++view.progress.done;
      ++view.progress.outcomes[trial.outcome];
      const bool faster =
          !best || trial.measurement.latency_ns_median < best->measurement.latency_ns_median;
      if (trial.outcome == Outcome::kOk && faster) best = std::move(trial);
    }
  }
  if (best) view.row.best_trial_id = best->id;
  if (view.row.finished_unix_ms == 0) view.row.finished_unix_ms = view.row.created_unix_ms;
  view.interrupted = true;
  view.row.state = db::SweepState::kCancelled;
  view.row.message = kInterrupted;
  view.row.summary = SummaryText(view);
  return store_.UpdateSweep(view.row);
}

bool SweepQueue::MayRunAgain(db::SweepRow& row) {
  // One that a daemon stopped in order is queued again.
  if (row.state == db::SweepState::kRunning) ++row.deaths;
  const bool failed = row.deaths >= options_.deaths_max;
  const bool changed = row.state == db::SweepState::kRunning || failed;
  row.state = failed ? db::SweepState::kFailed : db::SweepState::kQueued;
  row.message.clear();
  if (failed) {
    row.message =
        absl::StrCat("not taken up again: ", row.deaths, row.deaths == 1 ? " daemon" : " daemons",
                     " died while this sweep ran. Its trials are "
                     "kept; see the daemon's and the kernel's log for why, then submit it again");
    row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
    spdlog::error("sweep {}: {}", row.id, row.message);
  }
  if (!changed) return true;
  if (const absl::Status stored = store_.UpdateSweep(row); !stored.ok()) {
    // Run without the count on the disk, it could kill daemons for ever.
    spdlog::error("sweep {} is left as it is: {}", row.id, stored.ToString());
    return false;
  }
  return !failed;
}

absl::StatusOr<SweepView> SweepQueue::Submit(const Submission& submission) {
  const std::string& key = submission.sweep.idempotency_key;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::UnavailableError("the daemon is stopping");
    for (const auto& [id, live] : live_) {
      if (!key.empty() && live->idempotency_key == key) return live->feed->view();
    }
    if (live_.size() + submitting_ >= options_.unfinished_max) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the queue is full: ", options_.unfinished_max,
                       " sweeps wait or run. `tunectl sweep cancel` one, try again later, or start "
                       "tunerd with a larger --queue"));
    }
    ++submitting_;
  }
  const auto store = [&]() -> absl::StatusOr<db::SweepRow> {
    RETURN_IF_ERROR(store_.PutKernel(submission.kernel));
    SweepView view{
        .row = submission.sweep, .embedded = options_.embedded, .search = submission.search};
    view.progress.space_size = submission.space_size;
    view.progress.planned = PlannedTrials(view.row, submission.space_size);
    view.row.summary = SummaryText(view);
    return store_.AddSweep(std::move(view.row));
  };
  const absl::StatusOr<db::SweepRow> row = store();
  {
    std::lock_guard lock(mutex_);
    --submitting_;
  }
  RETURN_IF_ERROR(row.status());
  if (!IsFinished(row->state)) {
    ASSIGN_OR_RETURN(SweepView view, FromSummaryText(*row));
    view.search.prior = submission.search.prior;
    Enqueue(view);
  }
  return Get(row->id);
}

void SweepQueue::Enqueue(const SweepView& view) {
  std::lock_guard lock(mutex_);
  const int64_t id = view.row.id;
  if (stopping_ || live_.contains(id) || finished_.contains(id)) return;
  auto live = std::make_shared<Live>();
  live->device_id = view.row.device_id;
  live->idempotency_key = view.row.idempotency_key;
  live->feed = std::make_shared<SweepFeed>(view);
  live_.emplace(id, std::move(live));
  Device& device = devices_[view.row.device_id];
  device.waiting.push_back(id);
  TellWaiting(view.row.device_id, device);
  changed_.notify_all();
  if (!device.thread.joinable()) device.thread = std::thread([this, &device] { Loop(device); });
}

void SweepQueue::Loop(Device& device) {
  while (true) {
    int64_t id = 0;
    std::shared_ptr<Live> live;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !device.waiting.empty(); });
      if (stopping_) return;
      id = device.waiting.front();
      device.waiting.pop_front();
      live = live_.at(id);
      live->running = true;
      device.running = id;
      TellWaiting(live->device_id, device);
    }
    RunOne(id, *live);
    std::lock_guard lock(mutex_);
    device.running = 0;
  }
}

void SweepQueue::TellWaiting(const std::string& device_id, Device& device) {
  size_t ahead = device.running == 0 ? 0 : 1;
  for (const int64_t id : device.waiting) {
    const std::shared_ptr<SweepFeed>& feed = live_.at(id)->feed;
    SweepView view = feed->view();
    view.row.message = ahead == 0 ? ""
                                  : absl::StrCat(ahead, ahead == 1 ? " sweep is" : " sweeps are",
                                                 " ahead of it on ", device_id);
    feed->Update(std::move(view));
    ++ahead;
  }
}

void SweepQueue::RunOne(int64_t id, Live& live) {
  SweepView view = live.feed->view();
  view.row.state = db::SweepState::kRunning;
  view.row.message.clear();
  if (absl::Status status = store_.UpdateSweep(view.row); !status.ok()) {
    spdlog::error("sweep {}: {}", id, status.ToString());
  }
  live.feed->Update(view);
  spdlog::info("sweep {}: {} {} on {}", id, view.row.kernel_name, ToText(view.row.problem),
               view.row.device_id);
  SweepOutcome outcome = run_(std::move(view), *live.feed, live.control);
  if (IsFinished(outcome.view.row.state)) return Finish(id, live, std::move(outcome.view));
  if (outcome.view.embedded) return;  // it is told to be interrupted
  // Stopped in order: no death of the daemon.
  outcome.view.row.state = db::SweepState::kQueued;
  if (absl::Status status = store_.UpdateSweep(outcome.view.row); !status.ok()) {
    spdlog::error("sweep {}: that it was interrupted is not stored: {}", id, status.ToString());
  }
}

void SweepQueue::Finish(int64_t id, Live& live, SweepView view) {
  view.row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  view.row.summary = SummaryText(view);
  if (absl::Status status = StoreEnd(live, view); !status.ok()) {
    // Its trials are stored: the next start of the daemon finishes it from them.
    spdlog::error("sweep {}: its end was not stored: {}", id, status.ToString());
  }
  Forget(id, live, std::move(view));
}

absl::Status SweepQueue::StoreEnd(Live& live, const SweepView& view) {
  while (true) {
    const absl::Status stored = store_.UpdateSweep(view.row);
    if (stored.ok() || !db::MayPass(stored)) return stored;
    SweepView waiting = live.feed->view();
    const std::string message =
        absl::StrCat("ended, but that is not stored yet: ", stored.message());
    if (waiting.row.message != message) {
      spdlog::warn("sweep {}: {}", view.row.id, message);
      waiting.row.message = message;
      live.feed->Update(std::move(waiting));
    }
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kStoreAgain, [this] { return stopping_; })) return stored;
  }
}

void SweepQueue::Forget(int64_t id, Live& live, SweepView view) {
  spdlog::info("sweep {}: ended, {} trials{}{}", id, view.progress.done,
               view.row.message.empty() ? "" : "; ", view.row.message);
  live.feed->Update(view);
  {
    std::lock_guard lock(mutex_);
    live_.erase(id);
    changed_.notify_all();
    finished_.emplace(id, std::move(view));
    if (finished_.size() > options_.views_kept_max) finished_.erase(finished_.begin());
  }
  ticker_.Poke();
}

absl::StatusOr<SweepView> SweepQueue::Cancel(int64_t id, absl::Time deadline) {
  std::shared_ptr<Live> live;
  bool waiting = false;
  {
    std::lock_guard lock(mutex_);
    if (auto it = live_.find(id); it != live_.end()) {
      live = it->second;
      live->control.cancelled = true;
      live->control.stop = true;
      if (!live->running) {
        Device& device = devices_.at(live->device_id);
        std::erase(device.waiting, id);
        TellWaiting(live->device_id, device);
        live->running = waiting = true;  // this call ends it
      }
    }
  }
  if (live == nullptr) return CancelLeft(id);
  if (waiting) {
    RETURN_IF_ERROR(CancelWaiting(id, *live));
  }
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, LeftUntil(deadline),
                           [&] { return stopping_ || !live_.contains(id); })) {
    return absl::DeadlineExceededError(absl::StrCat("sweep ", id, " is still stopping"));
  }
  return live->feed->view();
}

// Nobody is told that it is cancelled before that is durable.
absl::Status SweepQueue::CancelWaiting(int64_t id, Live& live) {
  SweepView view = live.feed->view();
  view.row.state = db::SweepState::kCancelled;
  view.row.message = "it had not started";
  view.row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  view.row.summary = SummaryText(view);
  const absl::Status stored = store_.UpdateSweep(view.row);
  if (stored.ok()) {
    Forget(id, live, std::move(view));
    return stored;
  }
  std::lock_guard lock(mutex_);
  live.control.cancelled = false;
  live.control.stop = stopping_;
  live.running = false;
  devices_.at(live.device_id).waiting.push_front(id);
  changed_.notify_all();
  return stored;
}

absl::StatusOr<SweepView> SweepQueue::CancelLeft(int64_t id) {
  ASSIGN_OR_RETURN(SweepView view, Get(id));
  if (IsFinished(view.row.state)) return view;
  view.row.state = db::SweepState::kCancelled;
  view.row.message.clear();
  view.row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  RETURN_IF_ERROR(store_.UpdateSweep(view.row));
  return view;
}

absl::StatusOr<SweepView> SweepQueue::Get(int64_t id) {
  {
    std::lock_guard lock(mutex_);
    if (auto it = live_.find(id); it != live_.end()) return it->second->feed->view();
    if (auto it = finished_.find(id); it != finished_.end()) return it->second;
  }
  absl::StatusOr<db::SweepRow> row = store_.GetSweep(id);
  if (absl::IsNotFound(row.status())) {
    return absl::NotFoundError(absl::StrCat("no sweep ", id, "; see `tunectl sweep list`"));
  }
  RETURN_IF_ERROR(row.status());
  return ViewOf(*row);
}

absl::StatusOr<SweepView> SweepQueue::ViewOf(const db::SweepRow& row) {
  ASSIGN_OR_RETURN(SweepView view, FromSummaryText(row));
  if (!IsFinished(row.state)) {
    if (!options_.other_owner.empty()) {
      view.row.message = absl::StrCat("in ", options_.other_owner);
    } else if (view.embedded) {
      view.interrupted = true;
      view.row.message = kInterrupted;
    } else {
      view.row.state = db::SweepState::kQueued;
      view.row.message = kLeft;
    }
  }
  if (row.best_trial_id == 0) {
    view.result.reset();
    return view;
  }
  if (!view.result) view.result.emplace();
  ASSIGN_OR_RETURN(view.result->best, store_.GetTrial(row.best_trial_id));
  if (row.default_trial_id != 0) {
    ASSIGN_OR_RETURN(view.result->default_trial, store_.GetTrial(row.default_trial_id));
  }
  for (int64_t tie_id : row.tie_trial_ids) {
    ASSIGN_OR_RETURN(Trial tie, store_.GetTrial(tie_id));
    view.result->ties.push_back(std::move(tie));
  }
  return view;
}

absl::StatusOr<std::vector<SweepView>> SweepQueue::List(uint32_t limit) {
  ASSIGN_OR_RETURN(std::vector<db::SweepRow> rows, store_.ListSweeps(limit));
  std::vector<SweepView> views;
  for (const db::SweepRow& row : rows) {
    absl::StatusOr<SweepView> view = Get(row.id);
    if (absl::IsDataLoss(view.status())) {
      store_.NoteUnreadable({"sweep", row.id, std::string(view.status().message())});
      continue;
    }
    RETURN_IF_ERROR(view.status());
    views.push_back(*std::move(view));
  }
  return views;
}

absl::StatusOr<std::shared_ptr<SweepFeed>> SweepQueue::Feed(int64_t id) {
  {
    std::lock_guard lock(mutex_);
    if (auto it = live_.find(id); it != live_.end()) return it->second->feed;
  }
  ASSIGN_OR_RETURN(SweepView view, Get(id));
  if (!IsFinished(view.row.state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("sweep ", id, " cannot be followed here: ", view.row.message));
  }
  return std::make_shared<SweepFeed>(std::move(view));
}

SweepQueue::Counts SweepQueue::counts() const {
  std::lock_guard lock(mutex_);
  Counts counts;
  for (const auto& [id, live] : live_) ++(live->running ? counts.running : counts.queued);
  return counts;
}

void SweepQueue::BeginStop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  for (auto& [id, live] : live_) live->control.stop = true;
}

void SweepQueue::Stop() {
  BeginStop();
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, device] : devices_) threads.push_back(std::move(device.thread));
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace tune::server
