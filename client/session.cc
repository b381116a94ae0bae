// SPDX-License-Identifier: Apache-2.0
#include "client/session.h"

#include <cstdio>

#include "google/protobuf/util/json_util.h"

namespace tune::client {

absl::StatusOr<Connection*> Session::Connect(Need need) {
  if (connection_ == nullptr) {
    auto connection = Connection::Open(address, tls, [&] { return embedded_.daemon(need); });
    if (!connection.ok()) return connection.status();
    connection_ = *std::move(connection);
  }
  return connection_.get();
}

absl::StatusOr<v1::ReplayService::Stub*> Session::Replay() {
  if (replay_ == nullptr) {
    auto server = embedded_.replay();
    if (!server.ok()) return server.status();
    replay_server_ = *std::move(server);
    replay_ = v1::ReplayService::NewStub(replay_server_->channel());
  }
  return replay_.get();
}

void Session::Finish(const absl::Status& status) {
  exit_code_ = ExitCodeFor(status);
  if (status.ok()) return;
  std::fprintf(stderr, "tunectl: %s\n", std::string(status.message()).c_str());
}

namespace {

std::string JsonText(const google::protobuf::Message& message, bool whitespace) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = whitespace;
  options.preserve_proto_field_names = true;
  std::string text;
  // Fails only for messages with an invalid Any, which ours do not have.
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return text;
}

}  // namespace

std::string JsonText(const google::protobuf::Message& message) { return JsonText(message, true); }

void PrintJson(const google::protobuf::Message& message) {
  std::fputs(JsonText(message, true).c_str(), stdout);
}

void PrintJsonLine(const google::protobuf::Message& message) {
  std::printf("%s\n", JsonText(message, false).c_str());
}

}  // namespace tune::client
