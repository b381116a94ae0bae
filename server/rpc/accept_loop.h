// SPDX-License-Identifier: Apache-2.0
// A thread that accepts connections at listening sockets, until it is destroyed.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace tune::server {

class AcceptLoop {
 public:
  // Accepts a connection of the socket that has one. Returns false if there are no files or places
  // left; it is then called again after a pause, while the client waits in the socket's queue.
  using Accept = std::function<bool(int socket)>;

  // UNAVAILABLE if no descriptor is left for the event that stops it.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Start(std::vector<Descriptor> sockets,
                                                           Accept accept);
  ~AcceptLoop();

 private:
  AcceptLoop(std::vector<Descriptor> sockets, Descriptor stop, Accept accept);
  void Run();

  const std::vector<Descriptor> sockets_;
  const Descriptor stop_;
  const Accept accept_;
  std::thread thread_;
};

}  // namespace tune::server
