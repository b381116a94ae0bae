// SPDX-License-Identifier: Apache-2.0
// Checks each call before its service. gRPC knows a Guard in place of each service: the Guard has
// the service's methods, identifies the caller, and either ends the call or passes it to the
// service's own handler. A service itself checks only what depends on its data.
//
// The least role that a method needs is its option `tune.v1.role` in proto/; a method without the
// option is denied to everybody.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "db/token.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/impl/service_type.h"
#include "server/access/principals.h"

namespace tune::server {

// The least role for a method; nullopt if every caller is denied.
std::optional<db::Role> RoleFor(const google::protobuf::MethodDescriptor& method);
// "/tune.v1.SweepService/SubmitSweep".
std::string PathOf(const google::protobuf::MethodDescriptor& method);

// Thread-safe, if the service is. Must live until the gRPC server that it is registered with has
// ended.
class Guard final : public grpc::Service {
 public:
  // `service` implements `contract` by gRPC's callback interface, and outlives the guard, as do the
  // principals.
  Guard(const google::protobuf::ServiceDescriptor& contract, grpc::Service& service,
        const Principals& principals);

 private:
  std::deque<std::string> paths_;  // gRPC keeps pointers to them
};

}  // namespace tune::server
