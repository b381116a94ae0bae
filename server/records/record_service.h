// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/rpc/executor.h"
#include "server/records/record_book.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune::server {

// Look-ups are answered on gRPC's own threads: what they need is in memory, unless a safe config is
// to be sought. Thread-safe.
class RecordService : public v1::RecordService::CallbackService {
 public:
  RecordService(const RecordBook& records, Executors& executors)
      : records_(records), executors_(executors) {}

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const v1::LookupRequest* request,
                                   v1::LookupResponse* response) override;
  grpc::ServerUnaryReactor* ListRecords(grpc::CallbackServerContext* context,
                                        const v1::ListRecordsRequest* request,
                                        v1::ListRecordsResponse* response) override;

 private:
  const RecordBook& records_;
  Executors& executors_;
};

}  // namespace tune::server
