// SPDX-License-Identifier: Apache-2.0
// How tunectl reaches a server: the daemon it was told of, else the host's, else one of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/connect/credentials.h"
#include "grpcpp/grpcpp.h"
#include "tune/v1/access.grpc.pb.h"
#include "tune/v1/bench.grpc.pb.h"
#include "tune/v1/catalogue.grpc.pb.h"
#include "tune/v1/comparison.grpc.pb.h"
#include "tune/v1/device.grpc.pb.h"
#include "tune/v1/gate.grpc.pb.h"
#include "tune/v1/job.grpc.pb.h"
#include "tune/v1/profile.grpc.pb.h"
#include "tune/v1/record.grpc.pb.h"
#include "tune/v1/report.grpc.pb.h"
#include "tune/v1/server.grpc.pb.h"
#include "tune/v1/snapshot.grpc.pb.h"
#include "tune/v1/sweep.grpc.pb.h"

namespace tune::client {

// A server that lives in this process; stops when destroyed.
class EmbeddedServer {
 public:
  virtual ~EmbeddedServer() = default;
  virtual std::shared_ptr<grpc::Channel> channel() = 0;
};

using StartEmbedded = std::function<absl::StatusOr<std::unique_ptr<EmbeddedServer>>()>;

// What a command needs of a server in its own process. A daemon has it all.
enum class Need {
  kAll,      // devices, and a store to write to: one process at a time
  kRead,     // what is stored, whoever is writing
  kKernels,  // the catalogue, compilers, spaces: no store
};

// What the server in this process compiles with; of a daemon its operator decides.
struct HostTools {
  std::vector<std::string> include_roots;  // NAME=DIR, as tunerd's flag
  std::string triton_python;               // empty: the first that is found; as tunerd's flag
  std::string numpy_python;                // the same
};

// What tunectl can start in its own process.
struct EmbeddedServers {
  std::function<absl::StatusOr<std::unique_ptr<EmbeddedServer>>(Need, const HostTools& tools)>
      daemon;
  StartEmbedded replay;  // recorded spaces; holds no state and no device
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

  bool embedded() const { return embedded_ != nullptr; }
  const std::string& address() const { return address_; }

  v1::JobService::Stub& jobs() { return *jobs_; }
  v1::SweepService::Stub& sweeps() { return *sweeps_; }
  v1::KernelService::Stub& kernels() { return *kernels_; }
  v1::DeviceService::Stub& devices() { return *devices_; }
  v1::ProfileService::Stub& profiles() { return *profiles_; }
  v1::RecordService::Stub& records() { return *records_; }
  v1::SnapshotService::Stub& snapshots() { return *snapshots_; }
  v1::BenchService::Stub& bench() { return *bench_; }
  v1::ReportService::Stub& reports() { return *reports_; }
  v1::ServerService::Stub& server() { return *server_; }
  v1::GateService::Stub& gates() { return *gates_; }
  v1::CompareService::Stub& comparisons() { return *comparisons_; }
  v1::TokenService::Stub& tokens() { return *tokens_; }

 private:
  Connection(std::shared_ptr<grpc::Channel> channel, std::string address,
             std::unique_ptr<EmbeddedServer> embedded);

  std::unique_ptr<EmbeddedServer> embedded_;  // outlives the stubs
  std::string address_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::SweepService::Stub> sweeps_;
  std::unique_ptr<v1::KernelService::Stub> kernels_;
  std::unique_ptr<v1::DeviceService::Stub> devices_;
  std::unique_ptr<v1::ProfileService::Stub> profiles_;
  std::unique_ptr<v1::RecordService::Stub> records_;
  std::unique_ptr<v1::SnapshotService::Stub> snapshots_;
  std::unique_ptr<v1::BenchService::Stub> bench_;
  std::unique_ptr<v1::ReportService::Stub> reports_;
  std::unique_ptr<v1::ServerService::Stub> server_;
  std::unique_ptr<v1::GateService::Stub> gates_;
  std::unique_ptr<v1::CompareService::Stub> comparisons_;
  std::unique_ptr<v1::TokenService::Stub> tokens_;
};

}  // namespace tune::client
