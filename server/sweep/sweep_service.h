// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "db/store.h"
#include "server/devices/devices.h"
#include "server/jobs/job_kinds.h"
#include "server/kernels/catalogue.h"
#include "server/kernels/space_solver.h"
#include "server/sweep/sweeps.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class SweepService : public v1::SweepService::CallbackService {
 public:
  SweepService(const Catalogue& catalogue, const Devices& devices, db::Store& store, Sweeps& sweeps,
               SpaceSolver& solver, const JobTools& tools)
      : catalogue_(catalogue),
        devices_(devices),
        store_(store),
        sweeps_(sweeps),
        solver_(solver),
        tools_(tools) {}

  grpc::ServerUnaryReactor* SubmitSweep(grpc::CallbackServerContext* context,
                                        const v1::SubmitSweepRequest* request,
                                        v1::Sweep* response) override;
  grpc::ServerUnaryReactor* GetSweep(grpc::CallbackServerContext* context,
                                     const v1::GetSweepRequest* request,
                                     v1::Sweep* response) override;
  grpc::ServerWriteReactor<v1::Trial>* ListTrials(grpc::CallbackServerContext* context,
                                                  const v1::ListTrialsRequest* request) override;

 private:
  const Catalogue& catalogue_;
  const Devices& devices_;
  db::Store& store_;
  Sweeps& sweeps_;
  SpaceSolver& solver_;
  const JobTools tools_;
};

}  // namespace tune::server
