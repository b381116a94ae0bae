// SPDX-License-Identifier: Apache-2.0
// A call that streams events while something runs: every event is sent, in order, as fast as the
// client reads. One that hardly reads is cut off, since what waits for it is held in memory.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/executor.h"
#include "server/rpc/grpc_status.h"
#include "server/wire/nouns.h"

namespace tune::server {

// Thread-safe.
template <typename Event>
class EventReactor : public grpc::ServerWriteReactor<Event> {
 public:
  // Lives until gRPC and whoever holds the pointer are done with it.
  static std::shared_ptr<EventReactor> Make() {
    std::shared_ptr<EventReactor> reactor(new EventReactor());
    reactor->self_ = reactor;
    return reactor;
  }

  void Send(Event event) {
    {
      std::lock_guard lock(mutex_);
      if (end_ || broken_) return;
      waiting_.push_back(std::move(event));
      if (waiting_.size() > kWaitingMax) {
        waiting_.clear();
        cancelled_ = true;
        end_ = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                            "the client has not read the last thousands of events, so the call "
                            "was ended; call again, and read");
      }
    }
    Proceed();
  }
  // Ends the call after what waits was sent.
  void End(const grpc::Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (end_) return;
      end_ = status;
    }
    Proceed();
  }
  bool cancelled() const { return cancelled_; }

  // Runs a task that ends the call, unless the client goes away while it waits for a thread. The
  // executor must outlive the call.
  void RunOn(Executor& executor, std::function<void()> task) {
    absl::Status refused;
    {
      std::lock_guard lock(mutex_);
      const absl::StatusOr<Executor::Ticket> ticket = executor.Run(std::move(task));
      refused = ticket.status();
      if (ticket.ok()) queued_ = {&executor, *ticket};
    }
    if (!refused.ok()) End(ToGrpc(refused));
  }

  void OnWriteDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
      broken_ = broken_ || !ok;
    }
    Proceed();
  }
  void OnCancel() override {
    cancelled_ = true;
    {
      std::lock_guard lock(mutex_);
      if (queued_.first == nullptr || !queued_.first->Drop(queued_.second)) return;
    }
    End(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    std::shared_ptr<EventReactor> self;
    std::lock_guard lock(mutex_);
    self = std::move(self_);
  }

 private:
  static constexpr size_t kWaitingMax = 4096;

  EventReactor() = default;

  // Does what is to be done next. gRPC may call back from within, so not under the mutex.
  void Proceed() {
    std::optional<grpc::Status> status;
    {
      std::lock_guard lock(mutex_);
      if (writing_ || finished_) return;
      if (!waiting_.empty() && !broken_) {
        event_ = std::move(waiting_.front());
        waiting_.pop_front();
        writing_ = true;
      } else if (end_) {
        finished_ = true;
        status = end_;
      } else {
        return;
      }
    }
    if (status) {
      this->Finish(*status);
    } else {
      this->StartWrite(&event_);
    }
  }

  std::atomic<bool> cancelled_ = false;
  Event event_;  // in flight while writing_
  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Event> waiting_;
  std::pair<Executor*, Executor::Ticket> queued_ = {};
  std::optional<grpc::Status> end_;
  bool writing_ = false;
  bool broken_ = false;
  bool finished_ = false;
  std::shared_ptr<EventReactor> self_;
};

}  // namespace tune::server
