// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "server/rpc/grpc_status.h"

namespace tune::server {

std::shared_ptr<GateReactor> GateReactor::Make(WatchTicker& ticker, const std::string& principal,
                                               absl::Time deadline, Received received) {
  std::shared_ptr<GateReactor> reactor =
      Own(new GateReactor(ticker, deadline, std::move(received)));
  // Until there is a job, a stream that sends its request slowly is one of its caller's watches.
  reactor->Claim({.principal = principal, .kind = WatchClaim::Kind::kOwner});
  reactor->Join(reactor);
  return reactor;
}

void GateReactor::Tick() {
  bool late = false;
  {
    std::lock_guard lock(request_mutex_);
    late = received_ && SteadyNow() > deadline_;
    if (late) received_ = nullptr;
  }
  if (late) {
    End(ToGrpc(
        absl::DeadlineExceededError("the request did not end in time: close the sending side")));
  }
  Base::Tick();
}

void GateReactor::OnReadDone(bool ok) {
  Received received;
  absl::StatusOr<v1::RunGateRequest> request;
  {
    std::lock_guard lock(request_mutex_);
    if (!received_) return;
    request_bytes_ += ok ? piece_.ByteSizeLong() : 0;
    if (request_bytes_ > kGateRequestBytesMax) {
      request = absl::ResourceExhaustedError(
          absl::StrCat("the kernels of the run have more than ", kGateRequestBytesMax >> 20,
                       " MiB of sources: take fewer at a time, with --kernels"));
      received = std::exchange(received_, nullptr);
    } else if (ok) {
      request_.MergeFrom(piece_);
    } else {
      request = std::move(request_);
      received = std::exchange(received_, nullptr);
    }
  }
  if (received) {
    received(std::move(request));
  } else {
    StartRead(&piece_);
  }
}

}  // namespace tune::server
