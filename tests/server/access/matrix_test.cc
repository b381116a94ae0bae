// SPDX-License-Identifier: Apache-2.0
// Each role tries each call of the wire contract, over each kind of connection: exactly what
// docs/access.md says is refused.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "server/access/guard.h"
#include "server/log.h"
#include "server/server.h"
#include "tests/server/access/authority.h"
#include "tests/server/access/contract.h"
#include "tests/server/access/other_user.h"
#include "tests/server/temp_dir.h"
#include "tune/v1/access.grpc.pb.h"
#include "tune/v1/error.pb.h"

namespace tune::server {
namespace {

constexpr uid_t kMember = 12345, kStranger = 12346;
constexpr gid_t kSubmitGroup = 23456, kOtherGroup = 23457;

// How a call with an empty request ends. One that is let through may go on for long.
grpc::Status EndOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& path) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  grpc::CompletionQueue queue;
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  auto call = stub.PrepareCall(&context, path, &queue);
  call->StartCall(nullptr);
  if (done()) {
    const grpc::Slice nothing("", 0);
    call->WriteLast(grpc::ByteBuffer(&nothing, 1), grpc::WriteOptions(), nullptr);
    done();
    grpc::ByteBuffer reply;
    do {
      call->Read(&reply, nullptr);
    } while (done());
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  return status;
}

v1::ErrorReason ReasonOf(const grpc::Status& status) {
  v1::ErrorStatus details;
  v1::ErrorDetail detail;
  if (!details.ParseFromString(status.error_details()) || details.details().empty()) {
    return v1::ERROR_REASON_UNSPECIFIED;
  }
  (void)detail.ParseFromString(details.details(0).value());
  return detail.reason();
}

class MatrixTest : public testing::Test {
 protected:
  MatrixTest() : authority_(dir_.path()) {
    (void)StartLog("off", LogFormat::kText);
    (void)chmod(dir_.path().c_str(), 0755);
    const KeyPair own = authority_.Sign("daemon");
    // No worker can start: no call that is let through takes a device.
    server_ = Server::Start({.state_dir = dir_.path() + "/state",
                             .addresses = {"unix:" + socket(), "127.0.0.1:0"},
                             .tls = {.certificate_file = own.certificate,
                                     .key_file = own.key,
                                     .client_authority_file = authority_.file()},
                             .clients = {.certificates = {{"a-reader", db::Role::kReader},
                                                          {"an-operator", db::Role::kOperator}},
                                         .anonymous_readers = true,
                                         .submit_group = absl::StrCat(kSubmitGroup)},
                             .socket_mode = 0666,
                             .worker_dir = dir_.path(),
                             .limits = {.compile_workers = 1}})
                  .value();
  }

  std::string socket() const { return dir_.path() + "/d.sock"; }
  const std::string& tcp() const { return server_->addresses()[1]; }

  std::shared_ptr<grpc::Channel> WithCertificate(const std::string& name) {
    return ConnectByTls(tcp(), authority_.file(), authority_.Sign(name));
  }
  std::shared_ptr<grpc::Channel> WithToken(v1::PrincipalRole role) {
    const auto stub = v1::TokenService::NewStub(server_->InProcessChannel());
    v1::CreateTokenRequest request;
    request.set_name(absl::StrCat("t", role));
    request.set_role(role);
    v1::CreateTokenResponse response;
    grpc::ClientContext context;
    const grpc::Status made = stub->CreateToken(&context, request, &response);
    EXPECT_TRUE(made.ok()) << made.error_message();
    return ConnectByTls(tcp(), authority_.file(), {}, response.secret());
  }

  // Tries every call.
  void Try(const std::string& who, db::Role role, const std::shared_ptr<grpc::Channel>& channel) {
    ASSERT_NE(channel, nullptr) << who;
    google::protobuf::DescriptorPool pool;
    for (const google::protobuf::MethodDescriptor* call : CallsOf(pool)) {
      const std::string path = PathOf(*call);
      if (absl::StrContains(path, "ReplayService")) continue;  // a daemon does not have it
      const grpc::Status end = EndOf(channel, path);
      const bool refused = ReasonOf(end) == v1::ERROR_REASON_NOT_ALLOWED;
      EXPECT_EQ(refused, role < RoleFor(*call))
          << who << " at " << path << ": " << end.error_code() << " " << end.error_message();
      EXPECT_NE(end.error_code(), grpc::StatusCode::UNAUTHENTICATED) << who << " at " << path;
      EXPECT_NE(end.error_code(), grpc::StatusCode::UNIMPLEMENTED) << path;
      EXPECT_NE(end.error_code(), grpc::StatusCode::UNAVAILABLE)
          << who << " at " << path << ": " << end.error_message();
      if (refused) EXPECT_EQ(end.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    }
  }

  TempDir dir_;
  const Authority authority_;
  std::unique_ptr<Server> server_;
};

TEST_F(MatrixTest, AtTheUnixSocket) {
  Try("the daemon's user", db::Role::kOperator,
      grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials()));
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  Try("a member by a further group", db::Role::kSubmitter,
      ChannelAs(socket(), kMember, kOtherGroup, kSubmitGroup));
  Try("a stranger", db::Role::kReader, ChannelAs(socket(), kStranger, kOtherGroup, kOtherGroup));
}

TEST_F(MatrixTest, WithCertificates) {
  Try("a certificate without a line", db::Role::kSubmitter, WithCertificate("somebody"));
  Try("a certificate of a reader", db::Role::kReader, WithCertificate("a-reader"));
  Try("a certificate of an operator", db::Role::kOperator, WithCertificate("an-operator"));
}

TEST_F(MatrixTest, WithTokens) {
  Try("a reader's token", db::Role::kReader, WithToken(v1::PRINCIPAL_ROLE_READER));
  Try("a submitter's token", db::Role::kSubmitter, WithToken(v1::PRINCIPAL_ROLE_SUBMITTER));
  Try("an operator's token", db::Role::kOperator, WithToken(v1::PRINCIPAL_ROLE_OPERATOR));
}

TEST_F(MatrixTest, WithNeither) {
  Try("nobody in particular", db::Role::kReader, ConnectByTls(tcp(), authority_.file()));
}

TEST_F(MatrixTest, UsersThatComeAndGoAreNotTakenForEachOther) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const std::string path = "/tune.v1.JobService/CancelJob";
  std::vector<std::thread> users;
  for (uid_t user = 20000; user < 20008; ++user) {
    users.emplace_back([this, user, path] {
      for (int i = 0; i < 25; ++i) {
        const bool member = (user + static_cast<uid_t>(i)) % 2 == 0;
        const auto channel =
            ChannelAs(socket(), user, kOtherGroup, member ? kSubmitGroup : kOtherGroup);
        const grpc::Status end = EndOf(channel, path);
        EXPECT_EQ(ReasonOf(end) == v1::ERROR_REASON_NOT_ALLOWED, !member)
            << end.error_code() << " " << end.error_message();
      }
    });
  }
  for (std::thread& user : users) user.join();
}

}  // namespace
}  // namespace tune::server
