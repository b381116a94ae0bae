// SPDX-License-Identifier: Apache-2.0
// One ListTrials call: reads a sweep's trials in pieces and sends them as fast as the client takes
// them, so that a sweep of any length costs little memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "db/store.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/executor.h"
#include "server/wire/nouns.h"
#include "tune/v1/sweep.pb.h"

namespace tune::server {

class ListTrialsReactor : public grpc::ServerWriteReactor<v1::Trial> {
 public:
  // Owns itself until gRPC is done with it.
  static grpc::ServerWriteReactor<v1::Trial>* Start(const v1::ListTrialsRequest& request,
                                                    db::Store& store, Executor& executor);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  ListTrialsReactor(const v1::ListTrialsRequest& request, db::Store& store, Executor& executor)
      : sweep_id_(request.sweep_id()),
        samples_(request.with_samples() ? Samples::kInclude : Samples::kOmit),
        with_reused_(request.with_reused()),
        purpose_(request.purpose()),
        store_(store),
        executor_(executor) {}
  void ReadMore();
  absl::Status Read();
  // Trials of earlier sweeps with the key of this one, as it found them.
  void WriteNext();

  const int64_t sweep_id_;
  const Samples samples_;
  const bool with_reused_;
  const v1::TrialPurpose purpose_;
  db::Store& store_;
  Executor& executor_;
  std::atomic<bool> cancelled_ = false;
  std::vector<Trial> trials_;
  int64_t last_id_ = 0;  // of this sweep's trials
  bool started_ = false;
  size_t next_ = 0;
  v1::Trial message_;
};

}  // namespace tune::server
