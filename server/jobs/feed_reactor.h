// SPDX-License-Identifier: Apache-2.0
// A call that follows a feed: at each tick it makes messages of the news and sends them, unless the
// client has not read the last ones yet. A slow client costs the memory of one reading, and never
// delays the job.
//
//   auto reactor = FeedReactor<v1::JobEvent>::Make(ticker);
//   reactor->Follow(job_id, feed, [](const Feed::News& news, std::deque<v1::JobEvent>& events) {
//     events.push_back(EventOf(news));
//     return news.status;  // ends the call, if the feed has ended
//   });
//   return reactor.get();  // to gRPC
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/contained.h"
#include "base/mutex.h"
#include "grpcpp/support/server_callback.h"
#include "server/jobs/feed.h"
#include "server/jobs/watch_ticker.h"
#include "server/rpc/call_standing.h"
#include "server/rpc/grpc_status.h"

namespace tune::server {

// Thread-safe.
template <typename Event>
class FeedReactor : public grpc::ServerWriteReactor<Event>, public WatchTicker::Watcher {
 public:
  // Appends the messages of what is new. The call ends with the returned status if the feed has
  // ended.
  using MakeEvents = std::function<absl::Status(const Feed::News& news, std::deque<Event>& events)>;

  // Lives until gRPC and the holders of the pointer are done with it.
  static std::shared_ptr<FeedReactor> Make(WatchTicker& ticker) {
    std::shared_ptr<FeedReactor> reactor(new FeedReactor(ticker));
    MutexLock lock(reactor->mutex_);
    reactor->self_ = reactor;
    return reactor;
  }

  // Sends what the feed has, until it ends. Call once. The call ends if too many follow already.
  void Follow(int64_t job_id, std::shared_ptr<Feed> feed, MakeEvents make) {
    std::shared_ptr<FeedReactor> self;
    {
      MutexLock lock(mutex_);
      if (ending_ || done_) return;
      job_id_ = job_id;
      feed_ = std::move(feed);
      make_ = std::move(make);
      self = self_;
    }
    if (self != nullptr) Join(self);
    ticker_.Poke();
  }
  // Ends the call now, or when the write in flight is done.
  void End(grpc::Status status) {
    {
      MutexLock lock(mutex_);
      if (!ending_) end_status_ = std::move(status);
      ending_ = true;
      waiting_.clear();
      if (writing_ || finished_) return;
      finished_ = true;
      status = end_status_;
    }
    this->Finish(status);
  }
  // True once the client has left or the call was refused: further events are dropped.
  bool over() const {
    MutexLock lock(mutex_);
    return ending_;
  }
  // Sets the principal whose share of the watches this uses; call before Follow. Without a claim it
  // is a plain watcher of no principal.
  void Claim(WatchClaim claim) {
    MutexLock lock(mutex_);
    claim_ = std::move(claim);
  }

  int64_t job_id() const override {
    MutexLock lock(mutex_);
    return job_id_;
  }
  WatchClaim claim() const override {
    MutexLock lock(mutex_);
    return claim_;
  }
  void Tick() override {
    if (const absl::Status standing = CheckStanding(); !standing.ok()) {
      return End(ToGrpc(standing));
    }
    const absl::Status read = Contained([this] { ReadFeed(); });
    if (!read.ok()) return End(ToGrpc(read));
    Proceed();
  }
  // Still sends what was read from the feed.
  void Close() override {
    {
      MutexLock lock(mutex_);
      if (!ending_) {
        end_status_ = grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                   "the daemon is stopping; the job goes on when it starts again");
      }
      ending_ = true;
    }
    Proceed();
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      if (!ok) {
        ending_ = true;
        waiting_.clear();
      }
    }
    Proceed();
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    std::shared_ptr<FeedReactor> self;
    {
      MutexLock lock(mutex_);
      done_ = true;
      self = std::move(self_);
      feed_ = nullptr;
      make_ = nullptr;
      standing_ = nullptr;
    }
    ticker_.Remove(this);
  }

 private:
  explicit FeedReactor(WatchTicker& ticker) : ticker_(ticker), standing_(CallStanding::Current()) {}
  void Join(const std::shared_ptr<FeedReactor>& self) {
    const absl::Status added = ticker_.Add(self);
    if (!added.ok()) End(ToGrpc(added));
    bool done = false;
    {
      MutexLock lock(mutex_);
      done = done_;
    }
    if (done) ticker_.Remove(this);  // the client left meanwhile
  }
  // Makes messages of what is new. Nothing while the last ones are on their way.
  void ReadFeed() {
    MutexLock lock(mutex_);
    if (writing_ || ending_ || feed_ == nullptr) return;
    const std::optional<Feed::News> news = feed_->ReadSince(cursor_);
    if (!news) return;
    const absl::Status end = make_(*news, waiting_);
    if (!news->ended) return;
    ending_ = true;
    end_status_ = ToGrpc(end);
  }
  absl::Status CheckStanding() const {
    Standing standing;
    {
      MutexLock lock(mutex_);
      if (ending_) return absl::OkStatus();
      standing = standing_;
    }
    return standing ? standing() : absl::OkStatus();
  }
  // Does what is to be done next. gRPC may call back from within, so not under the mutex.
  void Proceed() {
    bool write = false;
    grpc::Status status;
    {
      MutexLock lock(mutex_);
      if (writing_ || finished_) return;
      if (!waiting_.empty()) {
        event_ = std::move(waiting_.front());
        waiting_.pop_front();
        writing_ = write = true;
      } else if (ending_) {
        finished_ = true;
        status = end_status_;
      } else {
        return;
      }
    }
    if (write) {
      this->StartWrite(&event_);
    } else {
      this->Finish(status);
    }
  }

  WatchTicker& ticker_;
  Event event_;  // in flight while writing_
  mutable Mutex mutex_;
  WatchClaim claim_ ABSL_GUARDED_BY(mutex_);
  int64_t job_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Feed> feed_ ABSL_GUARDED_BY(mutex_);
  Feed::Cursor cursor_ ABSL_GUARDED_BY(mutex_);
  MakeEvents make_ ABSL_GUARDED_BY(mutex_);
  std::deque<Event> waiting_ ABSL_GUARDED_BY(mutex_);  // of one reading
  Standing standing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;    // nothing more is read from the feed
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // Finish was called
  bool done_ ABSL_GUARDED_BY(mutex_) = false;      // OnDone was called
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<FeedReactor> self_ ABSL_GUARDED_BY(mutex_);  // until OnDone
};

}  // namespace tune::server
