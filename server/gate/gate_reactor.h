// SPDX-License-Identifier: Apache-2.0
// One RunGate call: the client sends the request in pieces, then follows the run.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/support/server_callback.h"
#include "server/jobs/feed_reactor.h"
#include "tune/v1/gate.pb.h"

namespace tune::server {

// Of a whole request: a thousand kernels of 12 KiB a side.
inline constexpr size_t kGateRequestBytesMax = size_t{24} << 20;

class GateReactor : public FeedReactor<v1::GateEvent,
                                       grpc::ServerBidiReactor<v1::RunGateRequest, v1::GateEvent>> {
 public:
  // Called once, on gRPC's thread: with the whole request, or RESOURCE_EXHAUSTED if it is too
  // large.
  using Received = std::function<void(absl::StatusOr<v1::RunGateRequest> request)>;

  // Lives until gRPC and whoever holds the pointer are done with it.
  static std::shared_ptr<GateReactor> Make(WatchTicker& ticker, const std::string& principal,
                                           absl::Time deadline, Received received);
  // Begins to read the request. A client that has not ended it by the deadline, as SteadyNow()
  // counts, is cut off.
  void Read() { StartRead(&piece_); }

  void Tick() override;
  void OnReadDone(bool ok) override;

 private:
  using Base =
      FeedReactor<v1::GateEvent, grpc::ServerBidiReactor<v1::RunGateRequest, v1::GateEvent>>;
  GateReactor(WatchTicker& ticker, absl::Time deadline, Received received)
      : Base(ticker), deadline_(deadline), received_(std::move(received)) {}

  const absl::Time deadline_;
  v1::RunGateRequest piece_;  // being read
  std::mutex request_mutex_;
  // Guarded by request_mutex_.
  Received received_;           // empty once it was called
  v1::RunGateRequest request_;  // the pieces so far
  size_t request_bytes_ = 0;
};

}  // namespace tune::server
