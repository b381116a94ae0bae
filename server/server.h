// SPDX-License-Identifier: Apache-2.0
// The whole server as an object: what tunerd runs, and tunectl when there is no daemon.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/client_rules.h"
#include "server/rpc/tls_options.h"
#include "server/supervision/limits.h"

namespace grpc {
class Channel;
}

namespace tune::server {

// How a server uses the store of its state folder.
enum class StoreUse {
  kOwn,   // alone, and writes to it
  kRead,  // beside a process that owns it, as one command that shows something; kOwn where there is
          // no store yet, or one of an older schema
  kNone,  // not at all: kernels and their spaces only
};

struct ServerOptions {
  std::string state_dir;  // created if it is not there
  // "postgresql://...", which hosts share; empty: a file of state_dir.
  std::string store;
  std::string host_name;  // among the hosts that share the store
  StoreUse store_use = StoreUse::kOwn;
  // Each "unix:<path>", or "<host>:<port>", which needs `tls`; none: in-process only.
  std::vector<std::string> addresses;
  TlsOptions tls;
  std::string metrics;  // "127.0.0.1:9464", where Prometheus reads metrics; empty: nowhere
  ClientRules clients;
  std::string audit_log;  // a file, see server/access/audit_log.h; empty: none
  // The page of this server, for clients to print: "http://127.0.0.1:7080"; empty: it has none.
  std::string web_url;
  std::function<void()> stop;  // what ServerService.StopServer calls; none: it is refused
  mode_t socket_mode = 0660;   // of unix sockets; with clients.submit_group, they are that group's
  bool embedded = false;       // inside another program, for that program alone
  // The catalogue's kernels that an embedded server will be asked about, if it takes up no job;
  // empty: any.
  std::vector<std::string> kernels;
  // The folder of the files that jobs of this host read; empty: "snapshots" in state_dir.
  std::string snapshot_dir;
  std::string worker_dir;  // of the workers' programs; empty: beside this program or in ../libexec
  Limits limits;
  std::vector<std::string> include_roots;  // NAME=DIR: folders that kernels may include from
  bool drop_damaged_log = false;           // see db::StoreOptions
  std::string triton_python;      // a Python that has Triton; empty: the first that is found
  std::string numpy_python;       // one that has NumPy; the same
  bool allow_weak_walls = false;  // kernels may run where walls around workers are missing
  absl::Duration compile_deadline = absl::Seconds(60);
  absl::Duration prepare_deadline = absl::Seconds(120);
  absl::Duration run_deadline = absl::Seconds(10);  // on a GPU; six times that on the CPU
};

// Thread-safe. One per state folder, across all processes.
class Server {
 public:
  // Serves when it returns; devices are probed in the background, and sweeps that an earlier daemon
  // left are taken up. The addresses are taken first, before the state is opened.
  // FAILED_PRECONDITION: an address cannot be listened at, which the error names, or another
  // process has the state folder; INVALID_ARGUMENT: an address or the TLS files are wrong.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();
  // Start's errors of options that name something wrong: addresses, certificates, groups, folders
  // of headers. Takes no address, opens no state and starts nothing.
  static absl::Status Check(const ServerOptions& options);
  // The process that owns a state folder, as "tunerd (process 17)"; empty: none.
  static std::string OwnerOf(const std::string& state_dir);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::shared_ptr<grpc::Channel> InProcessChannel();
  // The addresses that clients connect to, with the ports that were really taken.
  const std::vector<std::string>& addresses() const;

  // The address of the metrics, with the port that was really taken; empty: they are not served.
  std::string metrics_address() const;

  // Looks at the files of certificates now, as it does by itself each second.
  void ReadCertificates();

  // Roles and quotas from now on; groups and sockets stay as they are.
  void SetClientRules(const ClientRules& rules);
  // While it drains, jobs are neither taken nor started. Those that can go on later stop and wait,
  // the others run to their end. Look-ups and reads go on.
  void SetDraining(bool draining);
  uint32_t running_jobs() const;

  // Running sweeps stop where they are and go on at the next start. Calls in flight have until
  // `deadline`. Idempotent.
  void Stop(absl::Time deadline);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace tune::server
