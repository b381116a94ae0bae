// SPDX-License-Identifier: Apache-2.0
// Takes clients' connections for gRPC, and no more than so many at the same time: gRPC itself takes
// any number, with memory and a descriptor for each. Who comes when it is full is told so.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_builder.h"

namespace tune::server {

// Thread-safe. A thread of its own waits for connections and for their ends.
class LimitedListener {
 public:
  struct Options {
    std::string address;  // "unix:<path>" or "<host>:<port>"
    size_t connections_max = 0;
    bool plaintext = true;  // a client that is turned away can be told why
  };
  // Listens when it returns, but takes nobody before Start. FAILED_PRECONDITION: the address cannot
  // be listened on.
  static absl::StatusOr<std::unique_ptr<LimitedListener>> Listen(const Options& options);
  ~LimitedListener() { Stop(); }
  LimitedListener(const LimitedListener&) = delete;
  LimitedListener& operator=(const LimitedListener&) = delete;

  // REQUIRES: the server of `acceptor` runs, and does until Stop.
  void Start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);
  // Takes nobody any more. Idempotent.
  void Stop();

  int port() const { return port_; }  // that was really taken; 0 for a path
  size_t connections() const { return connections_; }
  uint64_t refused() const { return refused_; }

 private:
  // A client that is turned away, until it has heard so.
  struct Refused {
    std::string received;
    absl::Duration since;  // of the steady clock
    bool answered = false;
  };

  LimitedListener(const Options& options, int listen_fd, int port);
  void Loop();
  void Accept();
  void Admit(int fd);
  void Refuse(int fd);
  // Tells it why once it has asked for something. False: nothing more to say.
  bool Answer(int fd, Refused& refused) const;
  void Close(int fd);
  void Watch(int fd, uint32_t events) const;

  const Options options_;
  const int listen_fd_;
  const int port_;
  const int epoll_fd_;
  const int wake_fd_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::atomic<size_t> connections_{0};
  std::atomic<uint64_t> refused_{0};
  // On the thread, until it has ended.
  std::set<int> watched_;  // those turned away, and a second descriptor of each connection
  std::map<int, Refused> turned_away_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace tune::server
