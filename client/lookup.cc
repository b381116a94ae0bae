// SPDX-License-Identifier: Apache-2.0
#include "client/lookup.h"

#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/address.h"
#include "client/format.h"
#include "client/rpc.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune::client {
namespace {

class GrpcLookupClient : public LookupClient {
 public:
  GrpcLookupClient(std::shared_ptr<grpc::Channel> channel, std::chrono::milliseconds timeout)
      : records_(v1::RecordService::NewStub(channel)), timeout_(timeout) {}

  absl::StatusOr<TunedConfig> Lookup(const std::string& kernel,
                                     const std::map<std::string, int64_t>& dims,
                                     const std::string& dtype, const std::string& device) override {
    grpc::ClientContext context;
    SetDeadline(context, timeout_);
    v1::LookupRequest request;
    request.set_kernel_name(kernel);
    request.mutable_dims()->insert(dims.begin(), dims.end());
    request.set_dtype(dtype);
    request.set_device(device);
    v1::LookupResponse response;
    absl::Status status = FromGrpc(records_->Lookup(&context, request, &response));
    if (!status.ok()) return status;
    TunedConfig tuned;
    for (const v1::ConfigEntry& entry : response.config().entries()) {
      tuned.params[entry.param()] = entry.value().has_boolean()
                                        ? (entry.value().boolean() ? "1" : "0")
                                        : ToText(entry.value());
    }
    tuned.match =
        absl::AsciiStrToLower(absl::StripPrefix(v1::Match_Name(response.match()), "MATCH_"));
    tuned.reason = response.reason();
    tuned.latency_ns_median = response.record().measurement().latency_ns_median();
    tuned.snapshot_id = response.snapshot_id();
    return tuned;
  }

 private:
  const std::unique_ptr<v1::RecordService::Stub> records_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace

int64_t TunedConfig::Integer(const std::string& param, int64_t fallback) const {
  auto it = params.find(param);
  int64_t value = 0;
  return it != params.end() && absl::SimpleAtoi(it->second, &value) ? value : fallback;
}

absl::StatusOr<std::unique_ptr<LookupClient>> LookupClient::Create(const LookupOptions& options) {
  const std::string address = options.address.empty() ? DefaultAddress() : options.address;
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!absl::StartsWith(address, "unix:")) {
    grpc::SslCredentialsOptions tls;
    if (!options.ca_file.empty()) {
      std::ifstream in(options.ca_file, std::ios::binary);
      if (!in) {
        return absl::InvalidArgumentError(absl::StrCat("cannot read '", options.ca_file, "'"));
      }
      tls.pem_root_certs.assign(std::istreambuf_iterator<char>(in), {});
    }
    credentials = grpc::SslCredentials(tls);
  }
  return std::make_unique<GrpcLookupClient>(grpc::CreateChannel(address, credentials),
                                            options.timeout);
}

}  // namespace tune::client
