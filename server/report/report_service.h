// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "db/store.h"
#include "server/devices/devices.h"
#include "server/kernels/catalogue.h"
#include "server/rpc/executor.h"
#include "server/sweep/sweeps.h"
#include "tune/v1/report.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class ReportService : public v1::ReportService::CallbackService {
 public:
  ReportService(db::Store& store, Sweeps& sweeps, const Devices& devices,
                const Catalogue& catalogue, Executors& executors)
      : store_(store),
        sweeps_(sweeps),
        devices_(devices),
        catalogue_(catalogue),
        executors_(executors) {}

  grpc::ServerUnaryReactor* GetRooflines(grpc::CallbackServerContext* context,
                                         const v1::GetRooflinesRequest* request,
                                         v1::RooflineReport* response) override;
  grpc::ServerUnaryReactor* GetSweepReport(grpc::CallbackServerContext* context,
                                           const v1::GetSweepReportRequest* request,
                                           v1::SweepReport* response) override;
  grpc::ServerUnaryReactor* GetSweepCourse(grpc::CallbackServerContext* context,
                                           const v1::GetSweepCourseRequest* request,
                                           v1::SweepCourse* response) override;
  grpc::ServerUnaryReactor* GetFusionReport(grpc::CallbackServerContext* context,
                                            const v1::GetFusionReportRequest* request,
                                            v1::FusionReport* response) override;

 private:
  db::Store& store_;
  Sweeps& sweeps_;
  const Devices& devices_;
  const Catalogue& catalogue_;
  Executors& executors_;
};

}  // namespace tune::server
