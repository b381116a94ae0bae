// SPDX-License-Identifier: Apache-2.0
// The calls that the page makes to its daemon for a reader.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/page_caller.h"
#include "client/connect/rpc.h"
#include "grpcpp/grpcpp.h"

namespace tune::client {

// Has a call be the reader's: by its token, or without one as a reader of the loopback.
inline void SetReader(const std::string& token, grpc::ClientContext& context) {
  context.AddMetadata(kPageCaller, token);
}

// Thread-safe.
class DaemonCalls {
 public:
  explicit DaemonCalls(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Makes a call, Call(token, &v1::JobService::Stub::GetJob, request). Blocks until the answer,
  // Stop or a deadline.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(const std::string& token,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const std::type_identity_t<Request>& request) {
    grpc::ClientContext context;
    SetReader(token, context);
    SetDeadline(context, kDeadline);
    if (!Add(context)) return absl::UnavailableError("the daemon is stopping");
    Response response;
    Stub stub(channel_);
    const grpc::Status status = (stub.*method)(&context, request, &response);
    Remove(context);
    if (status.ok()) return response;
    return FromGrpc(status);
  }

  // Makes a call that streams, with use(message) for each; false ends it. Blocks like Call.
  template <typename Stub, typename Request, typename Message, typename Use>
  absl::Status Stream(const std::string& token,
                      std::unique_ptr<grpc::ClientReader<Message>> (Stub::*method)(
                          grpc::ClientContext*, const Request&),
                      const Request& request, Use use) {
    grpc::ClientContext context;
    SetReader(token, context);
    SetDeadline(context, kDeadline);
    if (!Add(context)) return absl::UnavailableError("the daemon is stopping");
    Stub stub(channel_);
    const std::unique_ptr<grpc::ClientReader<Message>> reader = (stub.*method)(&context, request);
    bool enough = false;
    for (Message message; !enough && reader->Read(&message);) enough = !use(message);
    if (enough) context.TryCancel();
    const grpc::Status status = reader->Finish();
    Remove(context);
    return enough ? absl::OkStatus() : FromGrpc(status);
  }

  // Ends the calls in flight; later ones fail.
  void Stop() {
    MutexLock lock(mutex_);
    stopped_ = true;
    for (grpc::ClientContext* const context : in_flight_) context->TryCancel();
  }

 private:
  static constexpr auto kDeadline = std::chrono::seconds(60);  // of large reports

  bool Add(grpc::ClientContext& context) {
    MutexLock lock(mutex_);
    if (!stopped_) in_flight_.insert(&context);
    return !stopped_;
  }
  void Remove(grpc::ClientContext& context) {
    MutexLock lock(mutex_);
    in_flight_.erase(&context);
  }

  const std::shared_ptr<grpc::Channel> channel_;
  Mutex mutex_;
  std::set<grpc::ClientContext*> in_flight_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tune::client
