// SPDX-License-Identifier: Apache-2.0
// How tunectl reaches a server: the daemon at --address, else the host's, else one in this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/connect/credentials.h"
#include "grpcpp/grpcpp.h"

namespace tune::client {

// A server that lives in this process; stops when destroyed.
class EmbeddedServer {
 public:
  virtual ~EmbeddedServer() = default;
  virtual std::shared_ptr<grpc::Channel> channel() = 0;
};

using StartEmbedded = std::function<absl::StatusOr<std::unique_ptr<EmbeddedServer>>()>;

// The parts of a server in its own process that a command needs. A daemon has all of them.
enum class Need {
  kAll,      // devices, and a store to write to: one process at a time
  kRead,     // what is stored, whoever is writing
  kKernels,  // the catalogue, compilers, spaces: no store
};

// The tools of the server in this process; those of a daemon are set by its operator.
struct HostTools {
  std::vector<std::string> include_roots;  // NAME=DIR, as tunerd's flag
  std::string triton_python;               // empty: the first that is found; as tunerd's flag
  std::string numpy_python;                // the same
};

// The servers that tunectl can start in its own process.
struct EmbeddedServers {
  // `kernels`: that will be asked about; empty: any.
  std::function<absl::StatusOr<std::unique_ptr<EmbeddedServer>>(
      Need, const std::vector<std::string>& kernels, const HostTools& tools)>
      daemon;
  StartEmbedded replay;  // recorded spaces; holds no state and no device
  // Puts a backup in the place of the store; returns the new name of the one before, if any.
  std::function<absl::StatusOr<std::string>(const std::string& file)> restore_store = {};
};

class Connection {
 public:
  // With an address (from a flag or $TUNE_ADDRESS) only that daemon will do: UNAVAILABLE if it does
  // not answer. Without one: the daemon at the default socket if there is one, else
  // `start_embedded`. PERMISSION_DENIED: a user listens at the socket who is not trusted
  // (client/connect/daemon_socket.h).
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& address,
                                                          const TlsFiles& tls,
                                                          const std::string& daemon_user,
                                                          const StartEmbedded& start_embedded);
  // To a server in this process, always.
  static absl::StatusOr<std::unique_ptr<Connection>> OpenEmbedded(
      const StartEmbedded& start_embedded);

  bool embedded() const { return embedded_ != nullptr; }
  const std::string& address() const { return address_; }

  // Prints where the page of a job is, on stderr, before the command shows anything of the job.
  // Session prints it again when the command ends. Empty: the daemon has no page.
  void ShowPage(const std::string& url);
  const std::string& page() const { return page_; }

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // A stub of `Service`, such as v1::JobService, for streams; other calls are made by Call
  // (client/cli/call.h).
  template <typename Service>
  typename Service::Stub stub() const {
    return typename Service::Stub(channel_);
  }

 private:
  Connection(std::shared_ptr<grpc::Channel> channel, std::string address,
             std::unique_ptr<EmbeddedServer> embedded);

  std::unique_ptr<EmbeddedServer> embedded_;  // outlives the channel
  std::string address_;
  std::string page_;  // of the last job; empty: none
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace tune::client
