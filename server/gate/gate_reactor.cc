// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_reactor.h"

#include <utility>

namespace tune::server {

std::shared_ptr<GateReactor> GateReactor::Make() {
  std::shared_ptr<GateReactor> reactor(new GateReactor());
  reactor->self_ = reactor;
  return reactor;
}

void GateReactor::Send(v1::GateEvent event) {
  {
    std::lock_guard lock(mutex_);
    if (end_) return;
    // A run that was told of must not be lost to the progress after it.
    if (next_ && next_->has_run() && !event.has_run()) *event.mutable_run() = next_->run();
    next_ = std::move(event);
  }
  Proceed();
}

void GateReactor::End(const grpc::Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (end_) return;
    end_ = status;
  }
  Proceed();
}

void GateReactor::Proceed() {
  std::optional<grpc::Status> status;
  {
    std::lock_guard lock(mutex_);
    if (writing_ || finished_) return;
    if (next_ && !broken_) {
      event_ = *std::move(next_);
      next_.reset();
      writing_ = true;
    } else if (end_) {
      finished_ = true;
      status = end_;
    } else {
      return;
    }
  }
  if (status) {
    Finish(*status);
  } else {
    StartWrite(&event_);
  }
}

void GateReactor::OnWriteDone(bool ok) {
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    broken_ = broken_ || !ok;
  }
  Proceed();
}

void GateReactor::OnDone() {
  std::shared_ptr<GateReactor> self;
  std::lock_guard lock(mutex_);
  self = std::move(self_);
}

}  // namespace tune::server
