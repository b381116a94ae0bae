// SPDX-License-Identifier: Apache-2.0
#include "server/access/guard.h"

#include <grpc/byte_buffer.h>
#include <grpc/support/time.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/alarm.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "server/rpc/call_standing.h"
#include "server/rpc/grpc_status.h"
#include "server/supervision/acting_for.h"
#include "tune/v1/role.pb.h"

namespace tune::server {
namespace {

using google::protobuf::MethodDescriptor;
using grpc::internal::MethodHandler;
using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;

// Ends a call of any kind, at once or after a delay. Owns itself until gRPC is done with it.
class Refusal : public grpc::ServerGenericBidiReactor {
 public:
  Refusal(const absl::Status& status, absl::Duration delay)
      : status_(ToGrpc(status)), waits_(delay > absl::ZeroDuration()) {
    if (!waits_) {
      Finish(status_);
      return;
    }
    const gpr_timespec left = gpr_time_from_millis(absl::ToInt64Milliseconds(delay), GPR_TIMESPAN);
    alarm_.Set(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), left), [this](bool) { Finish(status_); });
  }
  void OnCancel() override {
    if (waits_) alarm_.Cancel();
  }
  void OnDone() override { delete this; }

 private:
  const grpc::Status status_;
  const bool waits_;
  grpc::Alarm alarm_;
};

class GuardedMethod final : public MethodHandler {
 public:
  GuardedMethod(const MethodDescriptor& method, MethodHandler& handler,
                const Principals& principals)
      : path_(PathOf(method)),
        role_(RoleFor(method)),
        has_one_request_(!method.client_streaming()),
        handler_(handler),
        principals_(principals) {}

  // The request is parsed only if its caller may make the call.
  void* Deserialize(grpc_call*, grpc_byte_buffer* bytes, grpc::Status*, void**) override {
    return bytes;
  }

  void RunHandler(const HandlerParameter& call) override {
    const auto& context = static_cast<grpc::CallbackServerContext&>(*call.server_context);
    auto* const bytes = static_cast<grpc_byte_buffer*>(call.request);
    absl::StatusOr<Principal> principal = principals_.Admit(context, path_, role_);
    if (!principal.ok()) {
      grpc_byte_buffer_destroy(bytes);
      return Refuse(call, principal.status());
    }
    grpc::Status parsed;
    void* state = nullptr;
    void* request = nullptr;
    if (has_one_request_) {
      request = handler_.Deserialize(call.call->call(), bytes, &parsed, &state);
    }
    if (parsed.ok() && role_ >= db::Role::kSubmitter) {
      // No handler of such a call takes its request unparsed.
      principals_.NoteAct(
          context, {*principal, path_, *role_, static_cast<google::protobuf::Message*>(request)});
    }
    const CallStanding standing([&] { return principals_.StandingOf(context); });
    const ActingFor acting({.name = std::move(principal->name),
                            .has_reserve = principal->role == db::Role::kOperator,
                            .is_call = true});
    handler_.RunHandler(
        {call.call, call.server_context, request, parsed, state, call.call_requester});
  }

 private:
  void Refuse(const HandlerParameter& call, const absl::Status& why) const {
    const auto refuse = [&](grpc::CallbackServerContext* context) {
      return new Refusal(why, principals_.NoteRefused(*context, path_, why));
    };
    grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(refuse).RunHandler(
        call);
  }

  const std::string path_;
  const std::optional<db::Role> role_;
  const bool has_one_request_;
  MethodHandler& handler_;
  const Principals& principals_;
};

RpcMethod::RpcType TypeOf(const MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? RpcMethod::BIDI_STREAMING : RpcMethod::CLIENT_STREAMING;
  }
  return method.server_streaming() ? RpcMethod::SERVER_STREAMING : RpcMethod::NORMAL_RPC;
}

}  // namespace

std::optional<db::Role> RoleFor(const MethodDescriptor& method) {
  const v1::PrincipalRole role = method.options().GetExtension(v1::role);
  if (role == v1::PRINCIPAL_ROLE_UNSPECIFIED) return std::nullopt;
  return static_cast<db::Role>(role);
}

std::string PathOf(const MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

Guard::Guard(const google::protobuf::ServiceDescriptor& contract, grpc::Service& service,
             const Principals& principals) {
  // gRPC numbers a service's methods as its contract does.
  for (int i = 0; i < contract.method_count(); ++i) {
    const MethodDescriptor& method = *contract.method(i);
    MethodHandler& handler = *(service.*&Guard::GetHandler)(i);
    AddMethod(new RpcServiceMethod(paths_.emplace_back(PathOf(method)).c_str(), TypeOf(method),
                                   /*handler=*/nullptr));
    MarkMethodCallback(i, new GuardedMethod(method, handler, principals));
  }
}

}  // namespace tune::server
