// SPDX-License-Identifier: Apache-2.0
// Who asks.
#pragma once

#include <string>

#include "grpcpp/server_context.h"

namespace tune::server {

// The name in a client's certificate; "uid 1000" in the same process; "local" for a unix socket,
// whose file's mode says who may connect; else the address that the call comes from. For people: no
// right follows from it.
std::string CallerOf(const grpc::CallbackServerContext& context);

}  // namespace tune::server
