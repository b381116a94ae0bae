// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/kernels/catalogue.h"
#include "server/devices/devices.h"
#include "server/rpc/executor.h"
#include "server/supervision/workers.h"
#include "server/records/record_book.h"
#include "tune/v1/bench.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class BenchService : public v1::BenchService::CallbackService {
 public:
  // All must outlive the service.
  BenchService(const Catalogue& catalogue, Devices& devices, Workers& workers,
               const RecordBook& records)
      : catalogue_(catalogue), devices_(devices), workers_(workers), records_(records) {}
  ~BenchService() override { Stop(); }

  grpc::ServerUnaryReactor* Measure(grpc::CallbackServerContext* context,
                                    const v1::MeasureRequest* request,
                                    v1::MeasureResponse* response) override;

  // Ends what is being measured. Idempotent.
  void Stop();

 private:
  const Catalogue& catalogue_;
  Devices& devices_;
  Workers& workers_;
  const RecordBook& records_;
  // Of its own: a measurement may wait long for its turn, and must not keep other calls waiting.
  Executor executor_{/*threads_max=*/4, /*queue_max=*/64};
};

}  // namespace tune::server
