// SPDX-License-Identifier: Apache-2.0
// One RunGate call: the client sends the request in pieces, then the run tells its steps, and the
// client reads as fast as it likes. Steps that it is too slow for are left out; the last event
// never is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/support/server_callback.h"
#include "tune/v1/gate.pb.h"

namespace tune::server {

// Of a whole request: a thousand kernels of 12 KiB a side.
inline constexpr size_t kGateRequestBytesMax = size_t{24} << 20;

class GateReactor : public grpc::ServerBidiReactor<v1::RunGateRequest, v1::GateEvent> {
 public:
  // Lives until gRPC and whoever holds the pointer are done with it. Reads the request at once.
  static std::shared_ptr<GateReactor> Make();

  // Waits for the whole request. RESOURCE_EXHAUSTED: it is too large. DEADLINE_EXCEEDED: the client
  // has not ended it. CANCELLED: by the client, or `stopping`.
  absl::StatusOr<v1::RunGateRequest> AwaitRequest(absl::Time deadline,
                                                  const std::atomic<bool>& stopping);

  // Sends an event, now or instead of one that waits.
  void Send(v1::GateEvent event);
  // Ends the call after what waits was sent.
  void End(const grpc::Status& status);
  bool cancelled() const { return cancelled_; }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  GateReactor() = default;
  // Does what is to be done next. gRPC may call back from within, so not under the mutex.
  void Proceed();

  std::atomic<bool> cancelled_ = false;
  v1::RunGateRequest piece_;  // being read
  v1::GateEvent event_;       // in flight while writing_
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  v1::RunGateRequest request_;  // the pieces so far
  size_t request_bytes_ = 0;
  bool request_ended_ = false;
  std::optional<v1::GateEvent> next_;
  std::optional<grpc::Status> end_;
  bool writing_ = false;
  bool broken_ = false;
  bool finished_ = false;
  std::shared_ptr<GateReactor> self_;
};

}  // namespace tune::server
