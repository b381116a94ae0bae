// SPDX-License-Identifier: Apache-2.0
// A daemon that listens by TLS, its operator, and clients with tokens. For tests of what clients
// may do and see.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/access/authority.h"
#include "tests/server/test_server.h"
#include "tune/v1/access.grpc.pb.h"
#include "tune/v1/gate.grpc.pb.h"
#include "tune/v1/job.grpc.pb.h"

namespace tune::server {

using grpc::StatusCode;

// A client with everything that these tests call.
struct Client : Stubs {
  explicit Client(const std::shared_ptr<grpc::Channel>& channel)
      : Stubs(channel),
        gates(v1::GateService::NewStub(channel)),
        tokens(v1::TokenService::NewStub(channel)) {}

  StatusCode Status() const {
    v1::ServerStatus status;
    return Call(*server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status)
        .error_code();
  }
  v1::ServerStatus StatusNow() const {
    v1::ServerStatus status;
    const grpc::Status asked =
        Call(*server, &v1::ServerService::Stub::GetStatus, v1::GetStatusRequest(), &status);
    EXPECT_TRUE(asked.ok()) << asked.error_message();
    return status;
  }

  const std::unique_ptr<v1::GateService::Stub> gates;
  const std::unique_ptr<v1::TokenService::Stub> tokens;
};

class ClientsTest : public testing::Test {
 protected:
  ClientsTest() : authority_(dir_.path()), daemon_(authority_.Sign("daemon")) {
    (void)StartLog("off", LogFormat::kText);
  }

  ServerOptions Options() const {
    return {.state_dir = dir_.path() + "/state",
            .addresses = {"127.0.0.1:0"},
            .tls = {.certificate_file = daemon_.certificate,
                    .key_file = daemon_.key,
                    .client_authority_file = authority_.file()},
            .worker_dir = TUNE_BIN_DIR,
            .limits = {.compile_workers = 1}};
  }
  void Start(const ServerOptions& options) {
    server_ = nullptr;
    server_ = Server::Start(options).value();
    operator_ = std::make_unique<Client>(server_->InProcessChannel());
  }

  v1::CreateTokenResponse MakeToken(const std::string& name, v1::PrincipalRole role,
                                    int64_t seconds = 0) {
    v1::CreateTokenRequest request;
    request.set_name(name);
    request.set_role(role);
    request.set_seconds_valid(seconds);
    v1::CreateTokenResponse response;
    const grpc::Status made =
        Call(*operator_->tokens, &v1::TokenService::Stub::CreateToken, request, &response);
    EXPECT_TRUE(made.ok()) << made.error_message();
    return response;
  }
  Client WithToken(const std::string& secret) const {
    return Client(ConnectByTls(server_->addresses()[0], authority_.file(), {}, secret));
  }
  Client Submitter(const std::string& name) {
    return WithToken(MakeToken(name, v1::PRINCIPAL_ROLE_SUBMITTER).secret());
  }

  void Revoke(const std::string& name) {
    v1::RevokeTokenRequest request;
    request.set_name(name);
    v1::RevokeTokenResponse revoked;
    const grpc::Status status =
        Call(*operator_->tokens, &v1::TokenService::Stub::RevokeToken, request, &revoked);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // A sweep on the CPU.
  grpc::Status Submit(const Client& client, const ScaleOptions& kernel, uint64_t trials,
                      v1::Sweep& sweep) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = ScaleKernel(kernel);
    request.set_device("cpu");
    request.mutable_budget()->set_trials(static_cast<uint32_t>(trials));
    return Call(*client.sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
  }
  // The name of the kernel that was swept.
  std::string Sweep(const Client& client, const ScaleOptions& kernel) {
    v1::Sweep sweep;
    const grpc::Status submitted = Submit(client, kernel, 1, sweep);
    EXPECT_TRUE(submitted.ok()) << submitted.error_message();
    sweep = AwaitEnd(*client.sweeps, sweep.id());
    EXPECT_EQ(sweep.state(), v1::JOB_STATE_DONE) << sweep.message();
    return sweep.kernel_name();
  }
  grpc::Status Lookup(const Client& client, const std::string& kernel,
                      v1::LookupResponse& response) {
    v1::LookupRequest request;
    request.set_kernel_name(kernel);
    request.set_device("cpu");
    return Call(*client.records, &v1::RecordService::Stub::Lookup, request, &response);
  }
  std::vector<std::string> Records() {
    v1::ListRecordsResponse response;
    EXPECT_TRUE(Call(*operator_->records, &v1::RecordService::Stub::ListRecords,
                     v1::ListRecordsRequest(), &response)
                    .ok());
    std::vector<std::string> records;
    for (const v1::Record& record : response.records()) {
      if (record.id() == 0) continue;  // it came with the program
      records.push_back(absl::StrCat(record.kernel_name(), " by ", record.submitter()));
    }
    return records;
  }
  static void Await(const std::function<bool()>& condition) {
    for (int i = 0; i < 200 && !condition(); ++i) absl::SleepFor(absl::Milliseconds(50));
    EXPECT_TRUE(condition());
  }

  TempDir dir_;
  const Authority authority_;
  const KeyPair daemon_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> operator_;
};

}  // namespace tune::server
