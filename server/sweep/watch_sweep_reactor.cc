// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/watch_sweep_reactor.h"

#include <optional>
#include <utility>

#include "server/rpc/grpc_status.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"


namespace tune::server {

grpc::ServerWriteReactor<v1::SweepEvent>* WatchSweepReactor::Start(SweepQueue& queue,
                                                                   WatchTicker& ticker,
                                                                   Executor& executor,
                                                                   int64_t sweep_id) {
  std::shared_ptr<WatchSweepReactor> reactor(new WatchSweepReactor(ticker, sweep_id));
  reactor->self_ = reactor;  // nobody else knows it yet
  const absl::Status queued =
      executor.Run([reactor, &queue] { Open(reactor, queue); }).status();
  if (!queued.ok()) reactor->End(ToGrpc(queued));
  return reactor.get();
}

void WatchSweepReactor::Open(const std::shared_ptr<WatchSweepReactor>& self, SweepQueue& queue) {
  absl::StatusOr<std::shared_ptr<SweepFeed>> feed = queue.Feed(self->sweep_id_);
  if (!feed.ok()) {
    self->End(ToGrpc(feed.status()));
    return;
  }
  {
    std::lock_guard lock(self->mutex_);
    if (self->ending_) return;
    self->feed_ = *std::move(feed);
    self->cursor_ = self->feed_->Now();
  }
  if (const absl::Status added = self->ticker_.Add(self); !added.ok()) {
    self->End(ToGrpc(added));
    return;
  }
  bool done = false;
  {
    std::lock_guard lock(self->mutex_);
    done = self->done_;
  }
  if (done) self->ticker_.Remove(self.get());  // the client left meanwhile
}

// gRPC may call back from within StartWrite and Finish, so neither is called under the mutex.
void WatchSweepReactor::Tick() {
  {
    std::lock_guard lock(mutex_);
    if (writing_ || ending_) return;
    std::optional<SweepFeed::Event> event = feed_->ReadSince(cursor_);
    if (!event) return;
    event_.Clear();
    *event_.mutable_sweep() = ToProto(event->view);
    for (const Trial& trial : event->trials) *event_.add_trials() = ToProto(trial);
    writing_ = true;
    if (IsFinished(event->view.row.state)) ending_ = true;
  }
  StartWrite(&event_);
}

void WatchSweepReactor::OnWriteDone(bool ok) {
  grpc::Status status;
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) ending_ = true;
    if (!ending_ || finished_) return;
    finished_ = true;
    status = end_status_;
  }
  Finish(status);
}

void WatchSweepReactor::End(grpc::Status status) {
  {
    std::lock_guard lock(mutex_);
    if (!ending_) end_status_ = std::move(status);
    ending_ = true;
    if (writing_ || finished_) return;
    finished_ = true;
    status = end_status_;
  }
  Finish(status);
}

void WatchSweepReactor::OnCancel() { End(grpc::Status::CANCELLED); }

void WatchSweepReactor::Close() {
  End(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                   "the daemon is stopping; the sweep goes on when it starts again"));
}

void WatchSweepReactor::OnDone() {
  std::shared_ptr<WatchSweepReactor> self;
  {
    std::lock_guard lock(mutex_);
    done_ = true;
    self = std::move(self_);
  }
  ticker_.Remove(this);
}

}  // namespace tune::server
