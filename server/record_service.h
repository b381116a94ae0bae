// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/record_book.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune::server {

// Answers on gRPC's own threads: everything it needs is in memory. Thread-safe.
class RecordService : public v1::RecordService::CallbackService {
 public:
  explicit RecordService(const RecordBook& records) : records_(records) {}

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const v1::LookupRequest* request,
                                   v1::LookupResponse* response) override;
  grpc::ServerUnaryReactor* ListRecords(grpc::CallbackServerContext* context,
                                        const v1::ListRecordsRequest* request,
                                        v1::ListRecordsResponse* response) override;

 private:
  const RecordBook& records_;
};

}  // namespace tune::server
