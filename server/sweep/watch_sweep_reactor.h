// SPDX-License-Identifier: Apache-2.0
// One WatchSweep call: sends what is new at each tick, unless the client has not read the last
// event yet; so a slow client costs one event of memory and the sweep nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "grpcpp/support/server_callback.h"
#include "server/rpc/executor.h"
#include "server/sweep/sweep_feed.h"
#include "server/sweep/sweep_queue.h"
#include "tune/v1/sweep.pb.h"

namespace tune::server {

class WatchSweepReactor : public grpc::ServerWriteReactor<v1::SweepEvent>,
                          public WatchTicker::Watcher {
 public:
  // Owns itself until gRPC is done with it. All but `sweep_id` must outlive the call.
  static grpc::ServerWriteReactor<v1::SweepEvent>* Start(SweepQueue& queue, WatchTicker& ticker,
                                                         Executor& executor, int64_t sweep_id);

  int64_t sweep_id() const override { return sweep_id_; }
  void Tick() override;
  void Close() override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  WatchSweepReactor(WatchTicker& ticker, int64_t sweep_id) : ticker_(ticker), sweep_id_(sweep_id) {}

  static void Open(const std::shared_ptr<WatchSweepReactor>& self, SweepQueue& queue);
  // Ends the call now, or when the write in flight is done.
  void End(grpc::Status status);

  WatchTicker& ticker_;
  const int64_t sweep_id_;
  v1::SweepEvent event_;  // in flight while writing_

  std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<SweepFeed> feed_;
  SweepFeed::Cursor cursor_;
  bool writing_ = false;
  bool ending_ = false;                      // nothing more is written
  bool finished_ = false;                    // Finish was called
  std::shared_ptr<WatchSweepReactor> self_;  // until OnDone
  bool done_ = false;                        // OnDone was called
  grpc::Status end_status_;
};

}  // namespace tune::server
