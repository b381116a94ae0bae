// SPDX-License-Identifier: Apache-2.0
#include "client/lookup.h"

#include <functional>
#include <mutex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/address.h"
#include "client/credentials.h"
#include "client/daemon_socket.h"
#include "client/format.h"
#include "client/rpc.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune::client {
namespace {

TunedConfig ToTuned(const v1::LookupResponse& response) {
  TunedConfig tuned;
  for (const v1::ConfigEntry& entry : response.config().entries()) {
    tuned.params[entry.param()] =
        entry.value().has_boolean() ? (entry.value().boolean() ? "1" : "0") : ToText(entry.value());
  }
  tuned.match =
      absl::AsciiStrToLower(absl::StripPrefix(v1::Match_Name(response.match()), "MATCH_"));
  tuned.reason = response.reason();
  tuned.latency_ns_median = response.record().measurement().latency_ns_median();
  tuned.snapshot_id = response.snapshot_id();
  return tuned;
}

// Opens a channel, in at most the time that is given.
using OpenChannel =
    std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(std::chrono::milliseconds)>;

class GrpcLookupClient : public LookupClient {
 public:
  GrpcLookupClient(OpenChannel open, std::chrono::milliseconds timeout)
      : open_(std::move(open)), timeout_(timeout) {}

  absl::StatusOr<TunedConfig> Lookup(const std::string& kernel,
                                     const std::map<std::string, int64_t>& dims,
                                     const std::string& dtype, const std::string& device) override {
    v1::LookupRequest request;
    request.set_kernel_name(kernel);
    request.mutable_dims()->insert(dims.begin(), dims.end());
    request.set_dtype(dtype);
    request.set_device(device);
    const auto deadline = std::chrono::system_clock::now() + timeout_;
    bool is_new = false;
    v1::LookupResponse response;
    absl::Status status;
    // A connection of before may be to a daemon that has gone since.
    do {
      auto records = Connected(is_new);
      if (!records.ok()) return records.status();
      grpc::ClientContext context;
      context.set_deadline(deadline);
      response.Clear();
      status = FromGrpc((*records)->Lookup(&context, request, &response));
      if (absl::IsUnavailable(status)) Forget(*records);
    } while (absl::IsUnavailable(status) && !is_new);
    if (!status.ok()) return status;
    return ToTuned(response);
  }

 private:
  using Stub = std::shared_ptr<v1::RecordService::Stub>;

  absl::StatusOr<Stub> Connected(bool& is_new) {
    std::lock_guard lock(mutex_);
    is_new = records_ == nullptr;
    if (!is_new) return records_;
    auto channel = open_(timeout_);
    // To a job a daemon that is not trusted is none.
    if (absl::IsPermissionDenied(channel.status())) {
      return absl::UnavailableError(channel.status().message());
    }
    if (!channel.ok()) return channel.status();
    records_ = v1::RecordService::NewStub(*channel);
    return records_;
  }
  void Forget(const Stub& records) {
    std::lock_guard lock(mutex_);
    if (records_ == records) records_ = nullptr;
  }

  const OpenChannel open_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  Stub records_;  // guarded by mutex_; null: not connected
};

}  // namespace

int64_t TunedConfig::Integer(const std::string& param, int64_t fallback) const {
  auto it = params.find(param);
  int64_t value = 0;
  return it != params.end() && absl::SimpleAtoi(it->second, &value) ? value : fallback;
}

absl::StatusOr<std::unique_ptr<LookupClient>> LookupClient::Create(const LookupOptions& options) {
  const std::string address = options.address.empty() ? DefaultAddress() : options.address;
  if (const std::string path = SocketPath(address); !path.empty()) {
    const auto open = [path, user = options.daemon_user](std::chrono::milliseconds timeout) {
      return ConnectToDaemon(path, {.daemon_user = user, .timeout = timeout});
    };
    return std::make_unique<GrpcLookupClient>(open, options.timeout);
  }
  auto credentials = CredentialsOf({.ca = options.ca_file,
                                    .certificate = options.certificate_file,
                                    .key = options.key_file,
                                    .token_file = options.token_file});
  if (!credentials.ok()) return credentials.status();
  const auto channel = grpc::CreateChannel(address, *credentials);
  return std::make_unique<GrpcLookupClient>(
      [channel](std::chrono::milliseconds) { return channel; }, options.timeout);
}

}  // namespace tune::client
