// SPDX-License-Identifier: Apache-2.0
// Answers tools that know no stubs with the daemon's contract (gRPC's server reflection).
//
// gRPC's own implementation has a thread for each open stream. Here a stream is a reactor: it has
// no thread, and holds one answer until its caller has read it. A caller has a bounded number of
// streams.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class ReflectionService final
    : public grpc::reflection::v1alpha::ServerReflection::CallbackService {
 public:
  static constexpr int kStreamsMax = 16;  // of a caller

  // `services` are the names of all services that the daemon has.
  explicit ReflectionService(std::vector<std::string> services) : services_(std::move(services)) {}

  grpc::ServerBidiReactor<grpc::reflection::v1alpha::ServerReflectionRequest,
                          grpc::reflection::v1alpha::ServerReflectionResponse>*
  ServerReflectionInfo(grpc::CallbackServerContext* context) override;

 private:
  class Stream;

  // False if the caller has as many streams as it may.
  bool Enter(const std::string& caller);
  void Leave(const std::string& caller);

  const std::vector<std::string> services_;
  Mutex mutex_;
  std::map<std::string, int> streams_ ABSL_GUARDED_BY(mutex_);  // by caller; none is 0
};

}  // namespace tune::server
