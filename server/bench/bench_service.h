// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/devices/devices.h"
#include "server/jobs/job_call.h"
#include "server/kernels/catalogue.h"
#include "server/records/record_book.h"
#include "server/supervision/workers.h"
#include "tune/v1/bench.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class BenchService : public v1::BenchService::CallbackService {
 public:
  // All must outlive the service.
  BenchService(db::Store& store, const Catalogue& catalogue, const Devices& devices,
               Workers& workers, const RecordBook& records, const JobTools& tools)
      : store_(store),
        catalogue_(catalogue),
        devices_(devices),
        workers_(workers),
        records_(records),
        tools_(tools) {}

  grpc::ServerUnaryReactor* Measure(grpc::CallbackServerContext* context,
                                    const v1::MeasureRequest* request,
                                    v1::MeasureResponse* response) override;

 private:
  db::Store& store_;
  const Catalogue& catalogue_;
  const Devices& devices_;
  Workers& workers_;
  const RecordBook& records_;
  const JobTools tools_;
};

}  // namespace tune::server
