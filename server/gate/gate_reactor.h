// SPDX-License-Identifier: Apache-2.0
// One RunGate call: the run tells its steps, the client reads as fast as it likes. Steps that it is
// too slow for are left out; the last event never is.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "grpcpp/support/server_callback.h"
#include "tune/v1/gate.pb.h"

namespace tune::server {

class GateReactor : public grpc::ServerWriteReactor<v1::GateEvent> {
 public:
  // Lives until gRPC and whoever holds the pointer are done with it.
  static std::shared_ptr<GateReactor> Make();

  // Sends an event, now or instead of one that waits.
  void Send(v1::GateEvent event);
  // Ends the call after what waits was sent.
  void End(const grpc::Status& status);
  bool cancelled() const { return cancelled_; }

  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override;

 private:
  GateReactor() = default;
  // Does what is to be done next. gRPC may call back from within, so not under the mutex.
  void Proceed();

  std::atomic<bool> cancelled_ = false;
  v1::GateEvent event_;  // in flight while writing_
  std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<v1::GateEvent> next_;
  std::optional<grpc::Status> end_;
  bool writing_ = false;
  bool broken_ = false;
  bool finished_ = false;
  std::shared_ptr<GateReactor> self_;
};

}  // namespace tune::server
