// SPDX-License-Identifier: Apache-2.0
// tune.v1.ReplayService. Synchronous: its only client is the process it runs in.
#pragma once

#include "tune/v1/replay.grpc.pb.h"

namespace tune::server {

// Thread-safe; keeps nothing between calls.
class ReplayService : public v1::ReplayService::Service {
 public:
  grpc::Status ListStrategies(grpc::ServerContext*, const v1::ListStrategiesRequest*,
                              v1::ListStrategiesResponse*) override;
  grpc::Status DescribeRecording(grpc::ServerContext*, const v1::DescribeRecordingRequest*,
                                 v1::RecordingInfo*) override;
  grpc::Status ConvertRecording(grpc::ServerContext*, const v1::ConvertRecordingRequest*,
                                v1::ConvertRecordingResponse*) override;
  grpc::Status ReadPrior(grpc::ServerContext*, const v1::ReadPriorRequest*, v1::Prior*) override;
  grpc::Status Replay(grpc::ServerContext*, const v1::ReplayRequest*, v1::ReplayResponse*) override;
  grpc::Status CompareStrategies(grpc::ServerContext*, const v1::CompareStrategiesRequest*,
                                 grpc::ServerWriter<v1::CompareStrategiesEvent>*) override;
};

}  // namespace tune::server
