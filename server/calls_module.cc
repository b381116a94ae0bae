// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "server/modules.h"

namespace tune::server {
namespace {

constexpr absl::Duration kWatchPeriod = absl::Milliseconds(250);
constexpr int kReceiveBytesMax = 24 << 20;  // a kernel's files have at most 20 MiB
constexpr int kConcurrentStreamsMax = 256;  // of one connection
constexpr int kHandshakeMs = 10'000;

void SetLimits(const Limits& limits, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kReceiveBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kConcurrentStreamsMax);
  // Clients may ping every minute, also between calls.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 120'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // Limits the time of a new client until TLS and HTTP/2 are agreed on.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // Beyond it gRPC closes idle connections and ends calls with RESOURCE_EXHAUSTED.
  grpc::ResourceQuota quota("clients");
  quota.Resize(static_cast<size_t>(limits.connection_bytes));
  builder.SetResourceQuota(quota);
}

}  // namespace

absl::Status CallsModule::Start() {
  ticker = std::make_unique<WatchTicker>(
      WatchTicker::Options{.period = kWatchPeriod,
                           .watchers_max = limits.watchers,
                           .watchers_per_job_max = limits.watchers_per_job});
  return absl::OkStatus();
}

absl::Status CallsModule::Serve(const std::function<void(grpc::ServerBuilder& builder)>& add) {
  grpc::ServerBuilder builder;
  SetLimits(limits, builder);
  add(builder);
  server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("gRPC does not start");
  return absl::OkStatus();
}

void CallsModule::Stop(absl::Duration patience) {
  ticker->Stop();
  if (server != nullptr) {
    // By gRPC's clock, which absl::Now() may lag behind after somebody set it.
    server->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(patience));
    server->Wait();
  }
  executors.Stop();
  server = nullptr;
}

}  // namespace tune::server
