// SPDX-License-Identifier: Apache-2.0
// A job's events, one at a time: the daemon makes the next one when it is asked for, so that a slow
// reader costs one event and misses steps, never the end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "grpcpp/grpcpp.h"
#include "tune/v1/job.grpc.pb.h"

namespace tune::client {

// Thread-safe.
class JobStream : public grpc::ClientReadReactor<v1::JobEvent> {
 public:
  struct Handlers {
    std::function<void(const v1::JobEvent& event)> event;
    std::function<void(const grpc::Status& status)> end;  // the last call
  };
  // Follows a job for a reader. Handlers run on threads of gRPC, one at a time. The stream lives
  // until `end` has returned.
  static std::shared_ptr<JobStream> Open(const std::shared_ptr<grpc::Channel>& channel,
                                         int64_t job_id, const std::string& token,
                                         Handlers handlers);
  // Asks for the next event. Call once after each event.
  void Next();
  // `end` follows soon.
  void Cancel();

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  explicit JobStream(Handlers handlers) : handlers_(std::move(handlers)) {}

  grpc::ClientContext context_;
  v1::WatchJobRequest request_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  const Handlers handlers_;
  v1::JobEvent event_;
  Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;              // or ended: nothing is to be asked for
  std::shared_ptr<JobStream> self_ ABSL_GUARDED_BY(mutex_);  // until OnDone
};

}  // namespace tune::client
