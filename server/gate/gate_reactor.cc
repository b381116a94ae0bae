// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_reactor.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(50);

}  // namespace

std::shared_ptr<GateReactor> GateReactor::Make() {
  std::shared_ptr<GateReactor> reactor(new GateReactor());
  reactor->self_ = reactor;
  reactor->StartRead(&reactor->piece_);
  return reactor;
}

void GateReactor::OnReadDone(bool ok) {
  {
    std::lock_guard lock(mutex_);
    request_ended_ = request_ended_ || !ok;
    if (ok) {
      request_bytes_ += piece_.ByteSizeLong();
      request_ended_ = request_bytes_ > kGateRequestBytesMax;
      if (!request_ended_) request_.MergeFrom(piece_);
    }
    changed_.notify_all();
    if (request_ended_) return;
  }
  StartRead(&piece_);
}

void GateReactor::OnCancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

absl::StatusOr<v1::RunGateRequest> GateReactor::AwaitRequest(absl::Time deadline,
                                                             const std::atomic<bool>& stopping) {
  std::unique_lock lock(mutex_);
  while (!request_ended_ && !cancelled_ && !stopping && absl::Now() < deadline) {
    changed_.wait_for(lock, kPatience);
  }
  if (cancelled_) return absl::CancelledError("the call was cancelled");
  if (stopping) return absl::CancelledError("the daemon is stopping");
  if (!request_ended_) {
    return absl::DeadlineExceededError("the request did not end in time: close the sending side");
  }
  if (request_bytes_ > kGateRequestBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the kernels of the run have more than ", kGateRequestBytesMax >> 20,
                     " MiB of sources: take fewer at a time, with --kernels"));
  }
  return std::move(request_);
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
