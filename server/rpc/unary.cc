// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "base/contained.h"
#include "base/mutex.h"
#include "base/steady_time.h"
#include "server/rpc/grpc_status.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

using Handler = std::function<absl::Status(const Cancelled&)>;

// The request and the response live until the call is finished, so while the handler runs a call
// can only be asked to end.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  static grpc::ServerUnaryReactor* Start(Executor& executor, absl::Time deadline, Handler handle) {
    std::shared_ptr<UnaryCall> call(new UnaryCall(executor, deadline));
    absl::Status refused;
    {
      MutexLock lock(call->mutex_);
      call->self_ = call;
      absl::StatusOr<Executor::Ticket> ticket =
          executor.Run([call, handle = std::move(handle)] { call->Work(handle); });
      if (ticket.ok()) call->ticket_ = *ticket;
      refused = ticket.status();
    }
    if (!refused.ok()) call->Finish(ToGrpc(refused));
    return call.get();
  }

  void OnCancel() override {
    cancelled_ = true;
    {
      MutexLock lock(mutex_);
      if (!ticket_ || !executor_.Drop(*ticket_)) return;
    }
    Finish(ToGrpc(WhyEnded()));
  }
  void OnDone() override {
    std::shared_ptr<UnaryCall> self;
    MutexLock lock(mutex_);
    self = std::move(self_);
  }

 private:
  UnaryCall(Executor& executor, absl::Time deadline) : executor_(executor), deadline_(deadline) {}

  void Work(const Handler& handle) {
    const Cancelled cancelled = [this] { return cancelled_ || Expired() || executor_.stopping(); };
    absl::Status status = WhyEnded();
    if (status.ok()) status = Contained([&] { return handle(cancelled); });
    // A cancelled handler reports that it was cancelled, not why.
    if (absl::IsCancelled(status) && Expired()) status = WhyEnded();
    {
      MutexLock lock(mutex_);
      place_ = Executor::ThisPlace();
    }
    Finish(ToGrpc(status));
  }

  bool Expired() const { return SteadyNow() > deadline_; }
  absl::Status WhyEnded() const {
    if (Expired()) return absl::DeadlineExceededError("the call was not done within its deadline");
    if (cancelled_) return absl::CancelledError("the client went away");
    return absl::OkStatus();
  }

  Executor& executor_;
  const absl::Time deadline_;
  std::atomic<bool> cancelled_ = false;
  Mutex mutex_;
  std::optional<Executor::Ticket> ticket_ ABSL_GUARDED_BY(mutex_);
  Executor::Place place_ ABSL_GUARDED_BY(mutex_);  // until the client has the answer
  std::shared_ptr<UnaryCall> self_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* AnswerOn(Executor& executor, grpc::CallbackServerContext* context,
                                   std::function<absl::Status()> handle) {
  return AnswerOn(executor, context, absl::InfiniteDuration(),
                  [handle = std::move(handle)](const Cancelled&) { return handle(); });
}

grpc::ServerUnaryReactor* AnswerOn(Executor& executor, grpc::CallbackServerContext* context,
                                   absl::Duration cap, Handler handle) {
  return UnaryCall::Start(executor, DeadlineOf(*context, cap), std::move(handle));
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context, absl::Duration cap) {
  return SteadyNow() + std::min(TimeLeft(context.raw_deadline()), cap);
}

absl::Duration TimeLeft(gpr_timespec deadline) {
  const gpr_timespec steady = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
  const gpr_timespec left = gpr_time_sub(steady, gpr_now(GPR_CLOCK_MONOTONIC));
  if (gpr_time_cmp(left, gpr_inf_future(GPR_TIMESPAN)) >= 0) return absl::InfiniteDuration();
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace tune::server
