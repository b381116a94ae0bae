// SPDX-License-Identifier: Apache-2.0
// A server on a folder of its own, with the real workers, reached as clients reach it.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/log.h"
#include "server/server.h"
#include "tests/server/temp_dir.h"
#include "tune/v1/catalogue.grpc.pb.h"
#include "tune/v1/device.grpc.pb.h"
#include "tune/v1/job.grpc.pb.h"
#include "tune/v1/record.grpc.pb.h"
#include "tune/v1/server.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::server {

struct ScaleOptions {
  std::string items = "[1, 4]";
  bool faulty = false;  // the config THREADS=32 ITEMS=4 writes a wrong result
};

// y = 3 x, in 4 sizes of blocks times the items.
inline v1::KernelSource ScaleKernel(const ScaleOptions& options = {}) {
  v1::KernelSource source;
  source.set_spec_name("scale.textproto");
  source.set_spec_text(R"spec(name: "scale"
summary: "y = 3 x"
source: "scale.cu"
entry: "scale"
dims { name: "n" default_value: 4096 min: 1 max: 1048576 }
dims { name: "mode" default_value: 0 values: 0 values: 1 match: DIM_MATCH_EXACT }
dtypes: "f32"
params { name: "THREADS" values: "[32, 64, 128, 512]" default_value: "64" }
params { name: "ITEMS" values: "@items" default_value: "1" }
constraints { expression: "THREADS <= n" }
args { name: "x" buffer { dtype: "dtype" shape: "n" role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "dtype" shape: "n" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
launch { grid: "ceil_div(n, THREADS * ITEMS)" block: "THREADS" }
work { flops: "n" bytes: "2 * n * dtype_bytes" peak: "f32" }
reference {
  entry: "scale_reference"
  dtype: "f64"
  launch { grid: "ceil_div(n, 64)" block: "64" }
}
)spec");
  std::string& text = *source.mutable_spec_text();
  text.replace(text.find("@items"), 6, options.items);
  (*source.mutable_files())["scale.cu"] = absl::StrCat(
      options.faulty ? "#define FAULTY (THREADS == 32 && ITEMS == 4)\n" : "#define FAULTY 0\n", R"(
#ifdef TUNE_REFERENCE
extern "C" __global__ void scale_reference(const DTYPE* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3.0 * x[i];
}
#else
extern "C" __global__ void scale(const DTYPE* x, DTYPE* y, int n) {
  for (int item = 0; item < ITEMS; ++item) {
    const int i = (blockIdx.x * ITEMS + item) * THREADS + threadIdx.x;
    if (i < n) y[i] = (FAULTY ? 2.0f : 3.0f) * x[i];
  }
}
#endif
)");
  return source;
}

class Stubs {
 public:
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : sweeps(v1::SweepService::NewStub(channel)),
        kernels(v1::KernelService::NewStub(channel)),
        devices(v1::DeviceService::NewStub(channel)),
        records(v1::RecordService::NewStub(channel)),
        server(v1::ServerService::NewStub(channel)),
        jobs(v1::JobService::NewStub(channel)) {}

  const std::unique_ptr<v1::SweepService::Stub> sweeps;
  const std::unique_ptr<v1::KernelService::Stub> kernels;
  const std::unique_ptr<v1::DeviceService::Stub> devices;
  const std::unique_ptr<v1::RecordService::Stub> records;
  const std::unique_ptr<v1::ServerService::Stub> server;
  const std::unique_ptr<v1::JobService::Stub> jobs;
};

// One call with a deadline: Call(stub.GetSweep, ...) without the ceremony.
template <typename Stub, typename Request, typename Response>
grpc::Status Call(Stub& stub,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  return (stub.*method)(&context, request, response);
}

// The end of a submitted sweep.
inline v1::Sweep AwaitEnd(v1::SweepService::Stub& stub, int64_t id) {
  const absl::Time deadline = absl::Now() + absl::Minutes(5);
  v1::GetSweepRequest request;
  request.set_sweep_id(id);
  v1::Sweep sweep;
  do {
    absl::SleepFor(absl::Milliseconds(20));
    const grpc::Status status = Call(stub, &v1::SweepService::Stub::GetSweep, request, &sweep);
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (!status.ok()) break;
  } while (sweep.finished_unix_ms() == 0 && absl::Now() < deadline);
  EXPECT_GT(sweep.finished_unix_ms(), 0) << sweep.DebugString();
  return sweep;
}

// The results of a type in an event.
template <typename Result>
std::vector<Result> ResultsIn(const v1::JobEvent& event) {
  std::vector<Result> results;
  for (const google::protobuf::Any& any : event.results()) {
    if (any.Is<Result>()) any.UnpackTo(&results.emplace_back());
  }
  return results;
}

// Follows a job to its end, or until on_event(event) returns false; the status of the call.
template <typename OnEvent>
grpc::Status FollowJob(v1::JobService::Stub& stub, int64_t job_id, OnEvent on_event) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(5)));
  v1::WatchJobRequest request;
  request.set_job_id(job_id);
  auto reader = stub.WatchJob(&context, request);
  for (v1::JobEvent event; reader->Read(&event);) {
    if (!on_event(event)) context.TryCancel();
  }
  return reader->Finish();
}

// Submits a job by a SubmitX call and follows it to its end: the error of the call, else of the
// job.
template <typename Stub, typename Request, typename OnEvent>
grpc::Status RunJob(Stub& stub,
                    grpc::Status (Stub::*submit)(grpc::ClientContext*, const Request&, v1::Job*),
                    const Request& request, v1::JobService::Stub& jobs, OnEvent on_event) {
  v1::Job job;
  grpc::Status status = Call(stub, submit, request, &job);
  if (!status.ok()) return status;
  v1::JobEvent last;
  status = FollowJob(jobs, job.id(), [&](const v1::JobEvent& event) {
    last = event;
    on_event(event);
    return true;
  });
  if (!status.ok() || last.job().state() != v1::JOB_STATE_FAILED) return status;
  return {static_cast<grpc::StatusCode>(last.error_code()), last.job().message()};
}

inline grpc::Status CancelJob(v1::JobService::Stub& stub, int64_t job_id) {
  v1::CancelJobRequest request;
  request.set_job_id(job_id);
  v1::Job job;
  return Call(stub, &v1::JobService::Stub::CancelJob, request, &job);
}

}  // namespace tune::server
