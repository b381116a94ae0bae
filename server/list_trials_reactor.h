// SPDX-License-Identifier: Apache-2.0
// One ListTrials call: streams a sweep's trials, each converted when the client is ready for it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "db/store.h"
#include "grpcpp/support/server_callback.h"
#include "server/convert.h"
#include "server/executor.h"
#include "tune/v1/sweep.pb.h"

namespace tune::server {

class ListTrialsReactor : public grpc::ServerWriteReactor<v1::Trial> {
 public:
  // Owns itself until gRPC is done with it.
  static grpc::ServerWriteReactor<v1::Trial>* Start(const v1::ListTrialsRequest& request,
                                                    db::Store& store, Executor& executor);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  explicit ListTrialsReactor(Samples samples) : samples_(samples) {}
  void Read(db::Store& store, int64_t sweep_id);
  void WriteNext();

  const Samples samples_;
  std::vector<Trial> trials_;
  size_t next_ = 0;
  v1::Trial message_;
};

}  // namespace tune::server
