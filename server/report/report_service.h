// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "db/store.h"
#include "server/devices/devices.h"
#include "server/rpc/executor.h"
#include "server/sweep/sweeps.h"
#include "tune/v1/report.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class ReportService : public v1::ReportService::CallbackService {
 public:
  ReportService(db::Store& store, Sweeps& sweeps, const Devices& devices, Executors& executors)
      : store_(store), sweeps_(sweeps), devices_(devices), executors_(executors) {}

  grpc::ServerUnaryReactor* GetRooflines(grpc::CallbackServerContext* context,
                                         const v1::GetRooflinesRequest* request,
                                         v1::RooflineReport* response) override;
  grpc::ServerUnaryReactor* GetSweepReport(grpc::CallbackServerContext* context,
                                           const v1::GetSweepReportRequest* request,
                                           v1::SweepReport* response) override;

 private:
  db::Store& store_;
  Sweeps& sweeps_;
  const Devices& devices_;
  Executors& executors_;
};

}  // namespace tune::server
