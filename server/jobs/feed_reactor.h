// SPDX-License-Identifier: Apache-2.0
// A call that follows a feed: at each tick it makes messages of what is new and sends them, unless
// the client has not read the last ones yet. A slow client costs the memory of one reading, and the
// work nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/contained.h"
#include "grpcpp/support/server_callback.h"
#include "server/jobs/feed.h"
#include "server/jobs/watch_ticker.h"
#include "server/rpc/call_standing.h"
#include "server/rpc/grpc_status.h"

namespace tune::server {

// `Base` is ServerWriteReactor<Event>, or a ServerBidiReactor that writes events. Thread-safe.
template <typename Event, typename Base = grpc::ServerWriteReactor<Event>>
class FeedReactor : public Base, public WatchTicker::Watcher {
 public:
  // Appends the messages of what is new.
  using MakeEvents = std::function<void(const Feed::News& news, std::deque<Event>& events)>;

  // Lives until gRPC and whoever holds the pointer are done with it.
  static std::shared_ptr<FeedReactor> Make(WatchTicker& ticker) {
    std::shared_ptr<FeedReactor> reactor(new FeedReactor(ticker));
    reactor->self_ = reactor;
    return reactor;
  }

  // How the call ends with its feed: well, whatever came of the job, or as the job did.
  enum class Ends { kWell, kAsTheJob };

  // Sends what the feed has, until it ends. Call once. False if too many follow already, or if the
  // call is over.
  bool Follow(int64_t job_id, std::shared_ptr<Feed> feed, MakeEvents make,
              Ends ends = Ends::kWell) {
    std::shared_ptr<FeedReactor> self;
    {
      std::lock_guard lock(mutex_);
      if (ending_ || done_) return false;
      job_id_ = job_id;
      feed_ = std::move(feed);
      cursor_ = feed_->Now();
      make_ = std::move(make);
      ends_ = ends;
      self = self_;
    }
    if (self != nullptr && !Join(self)) return false;
    ticker_.Poke();
    return true;
  }
  // Called once if the client leaves before the end, at once if it has left; must not block.
  void OnLeave(std::function<void()> leave) {
    {
      std::lock_guard lock(mutex_);
      if (!left_) {
        leave_ = std::move(leave);
        return;
      }
    }
    leave();
  }
  // Ends the call now, or when the write in flight is done.
  void End(grpc::Status status) {
    {
      std::lock_guard lock(mutex_);
      if (!ending_) end_status_ = std::move(status);
      ending_ = true;
      waiting_.clear();
      if (writing_ || finished_) return;
      finished_ = true;
      status = end_status_;
    }
    this->Finish(status);
  }
  bool left() const {
    std::lock_guard lock(mutex_);
    return left_;
  }
  // The client has left, or the call was refused: nobody will get what is being made for it.
  bool over() const {
    std::lock_guard lock(mutex_);
    return left_ || ending_;
  }
  // Whose share of the watches it is in; call before Follow. A plain watcher's of nobody without.
  void Claim(WatchClaim claim) {
    std::lock_guard lock(mutex_);
    claim_ = std::move(claim);
  }

  int64_t job_id() const override {
    std::lock_guard lock(mutex_);
    return job_id_;
  }
  WatchClaim claim() const override {
    std::lock_guard lock(mutex_);
    return claim_;
  }
  void Tick() override {
    if (const absl::Status standing = CheckStanding(); !standing.ok()) {
      Leave();
      return End(ToGrpc(standing));
    }
    const absl::Status read = Contained([this] { ReadFeed(); });
    if (!read.ok()) return End(ToGrpc(read));
    Proceed();
  }
  // What was read from the feed is still sent.
  void Close() override {
    {
      std::lock_guard lock(mutex_);
      if (!ending_) {
        end_status_ = grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                   "the daemon is stopping; a sweep goes on when it starts again");
      }
      ending_ = true;
    }
    Proceed();
  }

  void OnWriteDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
      if (!ok) {
        ending_ = true;
        waiting_.clear();
      }
    }
    Proceed();
  }
  void OnCancel() override {
    Leave();
    End(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    std::shared_ptr<FeedReactor> self;
    {
      std::lock_guard lock(mutex_);
      done_ = true;
      self = std::move(self_);
      leave_ = nullptr;
      feed_ = nullptr;
      make_ = nullptr;
      standing_ = nullptr;
    }
    ticker_.Remove(this);
  }

 protected:
  explicit FeedReactor(WatchTicker& ticker) : ticker_(ticker), standing_(CallStanding::Current()) {}
  // Is ticked from now on, also before it follows a feed. False if too many are: the call ends.
  bool Join(const std::shared_ptr<FeedReactor>& self) {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(joined_, true)) return true;
    }
    const absl::Status added = ticker_.Add(self);
    if (!added.ok()) End(ToGrpc(added));
    bool done = false;
    {
      std::lock_guard lock(mutex_);
      done = done_;
    }
    if (done) ticker_.Remove(this);  // the client left meanwhile
    return added.ok();
  }
  // Of a class derived from this one: as Make.
  template <typename Derived>
  static std::shared_ptr<Derived> Own(Derived* derived) {
    std::shared_ptr<Derived> reactor(derived);
    reactor->self_ = reactor;
    return reactor;
  }

 private:
  // Makes messages of what is new. Nothing while the last ones are on their way.
  void ReadFeed() {
    std::lock_guard lock(mutex_);
    if (writing_ || ending_ || feed_ == nullptr) return;
    const std::optional<Feed::News> news = feed_->ReadSince(cursor_);
    if (!news) return;
    make_(*news, waiting_);
    if (news->ended) {
      ending_ = true;
      if (ends_ == Ends::kAsTheJob) end_status_ = ToGrpc(news->status);
    }
  }
  void Leave() {
    std::function<void()> leave;
    {
      std::lock_guard lock(mutex_);
      left_ = true;
      leave = std::exchange(leave_, nullptr);
      if (finished_) leave = nullptr;
    }
    if (leave) leave();
  }
  absl::Status CheckStanding() const {
    Standing standing;
    {
      std::lock_guard lock(mutex_);
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
      std::lock_guard lock(mutex_);
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
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  WatchClaim claim_;
  int64_t job_id_ = 0;
  std::shared_ptr<Feed> feed_;
  Feed::Cursor cursor_;
  MakeEvents make_;
  Ends ends_ = Ends::kWell;
  std::deque<Event> waiting_;  // of one reading
  std::function<void()> leave_;
  Standing standing_;
  bool joined_ = false;
  bool left_ = false;
  bool writing_ = false;
  bool ending_ = false;    // nothing more is read from the feed
  bool finished_ = false;  // Finish was called
  bool done_ = false;      // OnDone was called
  grpc::Status end_status_;
  std::shared_ptr<FeedReactor> self_;  // until OnDone
};

}  // namespace tune::server
