// SPDX-License-Identifier: Apache-2.0
// A call of any kind that ends before it begins, at once or after a while.
#pragma once

#include <grpc/support/time.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "server/rpc/grpc_status.h"

namespace tune::server {

// `Reactor` is a server reactor of gRPC's callback interface. Owns itself until gRPC is done.
template <typename Reactor>
class Refusal : public Reactor {
 public:
  explicit Refusal(const absl::Status& status, absl::Duration delay = absl::ZeroDuration())
      : status_(ToGrpc(status)), waits_(delay > absl::ZeroDuration()) {
    if (!waits_) {
      this->Finish(status_);
      return;
    }
    const gpr_timespec left = gpr_time_from_millis(absl::ToInt64Milliseconds(delay), GPR_TIMESPAN);
    alarm_.Set(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), left),
               [this](bool) { this->Finish(status_); });
  }
  void OnCancel() override {
    if (waits_) alarm_.Cancel();
  }
  void OnDone() override { delete this; }

 private:
  const grpc::Status status_;
  const bool waits_;
  grpc::Alarm alarm_;
};

}  // namespace tune::server
