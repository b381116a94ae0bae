// SPDX-License-Identifier: Apache-2.0
// The daemon's page: an HTTP server that asks the daemon in the same process and changes nothing.
// A thread serves all connections; a few others make pages, which may wait for the daemon.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<WebServer> web, WebServer::Bind("127.0.0.1:7080"));
//   ...start the daemon, which may say web->url() to its clients...
//   web->Serve(server->InProcessChannel());
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace tune::client {

// Thread-safe.
class WebServer {
 public:
  // Takes an address, "127.0.0.1:7080"; port 0 takes any. Browsers that connect before Serve wait.
  // INVALID_ARGUMENT: no address of the loopback. FAILED_PRECONDITION: it cannot be listened at.
  static absl::StatusOr<std::unique_ptr<WebServer>> Bind(const std::string& address);
  ~WebServer();

  // "http://127.0.0.1:7080", with the port that was really taken.
  const std::string& url() const;
  // Answers browsers with what the daemon at this channel says. Call once.
  void Serve(std::shared_ptr<grpc::Channel> channel);
  // Closes all connections, and ends the calls in flight. Idempotent. Call it before the daemon
  // stops.
  void Stop();

 private:
  struct Parts;
  explicit WebServer(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace tune::client
