// SPDX-License-Identifier: Apache-2.0
#include "server/sweep_queue.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr char kLeft[] =
    "interrupted; a daemon takes it up when it starts, and the same command again continues it";

}  // namespace

absl::StatusOr<std::unique_ptr<SweepQueue>> SweepQueue::Start(const Options& options,
                                                              db::Store& store, WatchTicker& ticker,
                                                              RunSweepJob run) {
  auto queue = std::unique_ptr<SweepQueue>(new SweepQueue(options, store, ticker, std::move(run)));
  if (!options.take_up) return queue;
  ASSIGN_OR_RETURN(std::vector<db::SweepRow> rows, store.UnfinishedSweeps());
  for (db::SweepRow& row : rows) {
    spdlog::info("sweep {} ({}) is taken up again", row.id, row.kernel_name);
    row.state = db::SweepState::kQueued;
    row.message.clear();
    ASSIGN_OR_RETURN(SweepView view, FromSummaryText(row));
    queue->Enqueue(view);
  }
  return queue;
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
                       " sweeps are waiting or running; cancel one, or try again later"));
    }
    ++submitting_;
  }
  const auto store = [&]() -> absl::StatusOr<db::SweepRow> {
    RETURN_IF_ERROR(store_.PutKernel(submission.kernel));
    SweepView view{.row = submission.sweep, .search = submission.search};
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
    }
    RunOne(id, *live);
  }
}

void SweepQueue::RunOne(int64_t id, Live& live) {
  SweepView view = live.feed->view();
  view.row.state = db::SweepState::kRunning;
  if (absl::Status status = store_.UpdateSweep(view.row); !status.ok()) {
    spdlog::error("sweep {}: {}", id, status.ToString());
  }
  live.feed->Update(view);
  spdlog::info("sweep {}: {} {} on {}", id, view.row.kernel_name, ToText(view.row.problem),
               view.row.device_id);
  SweepView ended = run_(std::move(view), *live.feed, live.control);
  if (IsFinished(ended.row.state)) Finish(id, live, std::move(ended));
}

void SweepQueue::Finish(int64_t id, Live& live, SweepView view) {
  view.row.finished_unix_ms = absl::ToUnixMillis(absl::Now());
  view.row.summary = SummaryText(view);
  if (absl::Status status = store_.UpdateSweep(view.row); !status.ok()) {
    // Its trials are stored: the next start of the daemon finishes it from them.
    spdlog::error("sweep {}: its end was not stored: {}", id, status.ToString());
  }
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
        std::erase(devices_.at(live->device_id).waiting, id);
        live->running = waiting = true;  // this call ends it
      }
    }
  }
  if (live == nullptr) return CancelLeft(id);
  if (waiting) {
    SweepView view = live->feed->view();
    view.row.state = db::SweepState::kCancelled;
    view.row.message = "it had not started";
    Finish(id, *live, std::move(view));
  }
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, absl::ToChronoTime(deadline),
                           [&] { return stopping_ || !live_.contains(id); })) {
    return absl::DeadlineExceededError(absl::StrCat("sweep ", id, " is still stopping"));
  }
  return live->feed->view();
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
    view.row.state = db::SweepState::kQueued;
    view.row.message = kLeft;
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
    ASSIGN_OR_RETURN(SweepView view, Get(row.id));
    views.push_back(std::move(view));
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
    return absl::FailedPreconditionError(absl::StrCat("sweep ", id, ": ", kLeft));
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
