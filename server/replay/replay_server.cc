// SPDX-License-Identifier: Apache-2.0
#include "server/replay/replay_server.h"

#include "server/replay/replay_service.h"

namespace tune::server {

ReplayServer::ReplayServer() : service_(std::make_unique<ReplayService>()) {}

ReplayServer::~ReplayServer() {
  if (server_ != nullptr) server_->Shutdown();
}

absl::StatusOr<std::unique_ptr<ReplayServer>> ReplayServer::Start() {
  std::unique_ptr<ReplayServer> replay(new ReplayServer());
  grpc::ServerBuilder builder;
  builder.RegisterService(replay->service_.get());
  builder.SetMaxReceiveMessageSize(-1);  // what it gets, this process has read already
  replay->server_ = builder.BuildAndStart();
  if (replay->server_ == nullptr) return absl::InternalError("the replay service did not start");
  return replay;
}

std::shared_ptr<grpc::Channel> ReplayServer::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return server_->InProcessChannel(arguments);
}

}  // namespace tune::server
