// SPDX-License-Identifier: Apache-2.0
// A ListTrials call: reads a sweep's trials in pages and sends them as fast as the client takes
// them, so that a sweep of any length costs little memory. It first learns the ids of some thousand
// trials, then loads those of a page at a time. A stream that is not read holds a page, and a place
// of its caller at the executor, so that a caller has a bounded number of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "db/store.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/call_standing.h"
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
        purpose_(request.purpose()),
        store_(store),
        executor_(executor),
        sharer_(ActingFor::Current()),
        lists_known_(request.with_reused()) {}
  void ReadMore();
  // Loads the next page; an empty one is the end.
  absl::Status Read();
  absl::Status CheckStanding() const { return standing_ ? standing_() : absl::OkStatus(); }
  absl::Status ReadSweep();
  // Reads the next ids: those of trials that the sweep reused from earlier sweeps of its key, then
  // of its own.
  absl::Status ReadIds();
  void WriteNext();

  const int64_t sweep_id_;
  const Samples samples_;
  const v1::TrialPurpose purpose_;
  db::Store& store_;
  Executor& executor_;
  const Sharer sharer_;
  std::atomic<bool> cancelled_ = false;
  std::optional<db::SweepRow> sweep_;
  bool hides_words_ = false;  // from the caller (server/access/discretion.h)
  bool lists_known_;          // the ids are of trials that were known
  std::vector<int64_t> ids_;
  size_t next_id_ = 0;   // in ids_
  int64_t last_id_ = 0;  // that was read
  std::vector<Trial> page_;
  size_t next_ = 0;  // in page_
  Executor::Place place_;
  v1::Trial message_;
  const Standing standing_ = CallStanding::Current();
};

}  // namespace tune::server
