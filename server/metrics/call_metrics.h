// SPDX-License-Identifier: Apache-2.0
// Counts every call of a gRPC server, of any kind.
#pragma once

#include <memory>

#include "grpcpp/support/server_interceptor.h"
#include "server/metrics/metrics.h"

namespace tune::server {

// For ServerBuilder::experimental().SetInterceptorCreators. The metrics must outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallCounter(
    Metrics& metrics);

}  // namespace tune::server
