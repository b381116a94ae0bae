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
        server(v1::ServerService::NewStub(channel)) {}

  const std::unique_ptr<v1::SweepService::Stub> sweeps;
  const std::unique_ptr<v1::KernelService::Stub> kernels;
  const std::unique_ptr<v1::DeviceService::Stub> devices;
  const std::unique_ptr<v1::RecordService::Stub> records;
  const std::unique_ptr<v1::ServerService::Stub> server;
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

// What the calls of tests need: a submitted sweep and its end.
inline v1::Sweep AwaitEnd(v1::SweepService::Stub& stub, int64_t id,
                          std::vector<v1::SweepEvent>* events = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(5)));
  v1::WatchSweepRequest request;
  request.set_sweep_id(id);
  auto reader = stub.WatchSweep(&context, request);
  v1::Sweep last;
  v1::SweepEvent event;
  while (reader->Read(&event)) {
    last = event.sweep();
    if (events != nullptr) events->push_back(event);
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return last;
}

}  // namespace tune::server
