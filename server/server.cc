// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "db/store.h"
#include "server/modules.h"

namespace tune::server {

struct Server::Parts {
  explicit Parts(const ServerOptions& server_options) : options(server_options) {}

  absl::Status Start();
  absl::Status Start(Module& module) {
    started.push_back(&module);
    return module.Start();
  }

  const ServerOptions options;
  const std::unique_ptr<Metrics> metrics =
      options.metrics.empty() ? nullptr : std::make_unique<Metrics>();
  StoreModule store{options, metrics.get()};
  DevicesModule devices{store};
  CallsModule calls{options.limits};
  ListenersModule listeners{options, calls};
  AccessModule access{store, calls, listeners};
  RecordsModule records{store, devices};
  JobsModule jobs{store, devices, calls, access, records};
  ServicesModule services{jobs};
  MetricsModule metrics_module{jobs};
  std::vector<Module*> started;
};

absl::Status Server::Parts::Start() {
  RETURN_IF_ERROR(listeners.Bind());
  RETURN_IF_ERROR(Start(store));
  RETURN_IF_ERROR(Start(devices));
  RETURN_IF_ERROR(Start(calls));
  if (store.store == nullptr) return Start(services);
  RETURN_IF_ERROR(Start(access));
  RETURN_IF_ERROR(Start(records));
  RETURN_IF_ERROR(Start(jobs));
  RETURN_IF_ERROR(Start(services));
  RETURN_IF_ERROR(Start(metrics_module));
  return Start(listeners);
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() { Stop(absl::Now()); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  std::unique_ptr<Server> server(new Server(std::make_unique<Parts>(options)));
  RETURN_IF_ERROR(server->parts_->Start());
  return server;
}

void Server::Stop(absl::Time deadline) {
  const absl::Duration patience = deadline - absl::Now();
  std::vector<Module*> modules = std::exchange(parts_->started, {});
  for (auto module = modules.rbegin(); module != modules.rend(); ++module) (*module)->BeginStop();
  for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
    (*module)->Stop(patience);
  }
}

std::shared_ptr<grpc::Channel> Server::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return parts_->calls.server->InProcessChannel(arguments);
}

const std::vector<std::string>& Server::addresses() const { return parts_->listeners.addresses; }

std::string Server::metrics_address() const {
  const auto& listener = parts_->metrics_module.listener;
  return listener == nullptr ? "" : listener->address();
}

void Server::ReadCertificates() {
  if (parts_->listeners.certificates != nullptr) parts_->listeners.certificates->LookAgain();
}

absl::Status Server::Check(const ServerOptions& options) {
  RETURN_IF_ERROR(ListenersModule::Check(options));
  if (!options.metrics.empty()) RETURN_IF_ERROR(CheckLoopback(options.metrics));
  if (!options.audit_log.empty()) RETURN_IF_ERROR(AuditLog::CheckFolder(options.audit_log));
  if (!options.store.empty()) RETURN_IF_ERROR(db::Store::CheckUrl(options.store));
  return IncludeRoots::Read(options.include_roots).status();
}

void Server::SetClientRules(const ClientRules& rules) {
  parts_->access.principals->SetRules(rules);
}

void Server::SetDraining(bool draining) { parts_->jobs.scheduler->SetDraining(draining); }

uint32_t Server::running_jobs() const { return parts_->jobs.scheduler->counts().running; }

std::string Server::OwnerOf(const std::string& state_dir) {
  return db::Store::WriterOf(StorePath(state_dir));
}

}  // namespace tune::server
