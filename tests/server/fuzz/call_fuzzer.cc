// SPDX-License-Identifier: Apache-2.0
#include "tests/server/fuzz/call_fuzzer.h"

#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/access/guard.h"
#include "server/log.h"
#include "server/supervision/process_tree.h"
#include "tests/server/access/contract.h"
#include "tune/v1/access.grpc.pb.h"

namespace tune::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(1);
constexpr absl::Duration kStatusPatience = absl::Seconds(60);
// Others in between find out sooner or later.
constexpr uint64_t kCallsBetweenStatuses = 20;

bool IsDaemonsFault(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::INTERNAL ||
         status.error_code() == grpc::StatusCode::UNKNOWN ||
         status.error_code() == grpc::StatusCode::DATA_LOSS;
}

std::string SecretOf(Server& server, v1::PrincipalRole role) {
  const auto stub = v1::TokenService::NewStub(server.InProcessChannel());
  v1::CreateTokenRequest request;
  request.set_name(absl::StrCat("t", role));
  request.set_role(role);
  v1::CreateTokenResponse response;
  grpc::ClientContext context;
  (void)stub->CreateToken(&context, request, &response);
  return response.secret();
}

}  // namespace

CallFuzzer::CallFuzzer() : authority_(dir_.path()), calls_(CallsOf(pool_)) {
  (void)StartLog("off", LogFormat::kText);
  std::erase_if(calls_, [](const google::protobuf::MethodDescriptor* call) {
    return call->service()->name() == "ReplayService";  // a daemon does not have it
  });
  const KeyPair own = authority_.Sign("daemon");
  server_ = Server::Start({.state_dir = dir_.path() + "/state",
                           .addresses = {"127.0.0.1:0"},
                           .tls = {.certificate_file = own.certificate,
                                   .key_file = own.key,
                                   .client_authority_file = authority_.file()},
                           .clients = {.anonymous_readers = true},
                           .worker_dir = TUNE_BIN_DIR,
                           .limits = {.compile_workers = 1}})
                .value();
  Connect();
}

void CallFuzzer::Connect() {
  const std::string& address = server_->addresses()[0];
  channels_ = {ConnectByTls(address, authority_.file())};
  for (const v1::PrincipalRole role :
       {v1::PRINCIPAL_ROLE_READER, v1::PRINCIPAL_ROLE_SUBMITTER, v1::PRINCIPAL_ROLE_OPERATOR}) {
    channels_.push_back(ConnectByTls(address, authority_.file(), {}, SecretOf(*server_, role)));
  }
}

grpc::Status CallFuzzer::Call(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& path, const std::vector<std::string>& requests,
                              absl::Duration patience) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + patience));
  grpc::CompletionQueue queue;
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, path, &queue);
  call->StartCall(nullptr);
  bool goes_on = done();
  for (size_t i = 0; goes_on && i < requests.size(); ++i) {
    const grpc::Slice slice(requests[i]);
    const grpc::ByteBuffer bytes(&slice, 1);
    if (i + 1 == requests.size()) {
      call->WriteLast(bytes, grpc::WriteOptions(), nullptr);
    } else {
      call->Write(bytes, nullptr);
    }
    goes_on = done();
  }
  grpc::ByteBuffer reply;
  do {
    call->Read(&reply, nullptr);
  } while (done());
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  return status;
}

std::string CallFuzzer::Run(Choices& choices) {
  const google::protobuf::MethodDescriptor& call = *calls_[choices.Below(calls_.size())];
  // Mostly by those who may.
  const size_t role = choices.OneIn(4) ? choices.Below(channels_.size()) : 2 + choices.Below(2);
  RequestMaker maker(choices);
  std::vector<std::string> requests = {maker.Make(*call.input_type())};
  while (call.client_streaming() && !choices.OneIn(3)) {
    requests.push_back(maker.Make(*call.input_type()));
  }
  if (choices.OneIn(100)) requests[0].resize(choices.Below(requests[0].size() + 1));
  const grpc::Status status = Call(channels_[role], PathOf(call), requests, kPatience);
  successes_ += status.ok() ? 1 : 0;
  if (status.ok() && call.name() == "RevokeToken") Connect();  // it may have been one of ours
  if (IsDaemonsFault(status)) {
    return absl::StrCat(PathOf(call), " ended with ", status.error_code(), ": ",
                        status.error_message());
  }
  if (++calls_made_ % kCallsBetweenStatuses != 0) return "";
  const std::string wrong = WhatIsWrong();
  return wrong.empty() ? "" : absl::StrCat("after ", PathOf(call), ": ", wrong);
}

std::string CallFuzzer::WhatIsWrong() {
  const grpc::Status status =
      Call(channels_.back(), "/tune.v1.ServerService/GetStatus", {""}, kStatusPatience);
  if (!status.ok()) return absl::StrCat("no status: ", status.error_message());
  const auto resident = static_cast<int64_t>(ResidentBytesOf(getpid()));
  if (resident <= kResidentBytesMax) return "";
  return absl::StrCat("the process holds ", resident >> 20, " MiB");
}

}  // namespace tune::server
