// SPDX-License-Identifier: Apache-2.0
// The page calls its daemon for readers, who may read and nothing else.
#include <gtest/gtest.h>

#include "base/page_caller.h"
#include "tests/server/test_server.h"
#include "tune/v1/access.grpc.pb.h"

namespace tune::client {
namespace {

using server::Stubs;

class PageAccessTest : public testing::Test {
 protected:
  PageAccessTest() {
    (void)server::StartLog("error", server::LogFormat::kText);
    server_ = server::Server::Start({.state_dir = dir_ / "state",
                                     .addresses = {"unix:" + (dir_ / "d.sock")},
                                     .worker_dir = TUNE_BIN_DIR})
                  .value();
    stubs_ = std::make_unique<Stubs>(server_->InProcessChannel());
  }

  // The codes of a call that reads and of one that changes, for a token.
  struct Codes {
    grpc::StatusCode read, change;
  };
  static Codes CodesOf(const Stubs& stubs, const std::string& token) {
    grpc::ClientContext reading, changing;
    reading.AddMetadata(kPageCaller, token);
    changing.AddMetadata(kPageCaller, token);
    v1::ListJobsResponse jobs;
    v1::ClearCompileCacheResponse cleared;
    return {stubs.jobs->ListJobs(&reading, {}, &jobs).error_code(),
            stubs.server->ClearCompileCache(&changing, {}, &cleared).error_code()};
  }

  const server::TempDir dir_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<Stubs> stubs_;
};

TEST_F(PageAccessTest, AReaderOfTheLoopbackReadsAndChangesNothing) {
  const Codes codes = CodesOf(*stubs_, "");
  EXPECT_EQ(codes.read, grpc::StatusCode::OK);
  EXPECT_EQ(codes.change, grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext context;
  context.AddMetadata(kPageCaller, "");
  v1::ServerStatus status;
  ASSERT_TRUE(stubs_->server->GetStatus(&context, {}, &status).ok());
  EXPECT_EQ(status.caller().role(), v1::PRINCIPAL_ROLE_READER);
  EXPECT_EQ(status.caller().name(), "(page)");
}

TEST_F(PageAccessTest, ATokenIsWhoItIs) {
  EXPECT_EQ(CodesOf(*stubs_, "tune_wrong").read, grpc::StatusCode::UNAUTHENTICATED);
  v1::CreateTokenRequest request;
  request.set_name("alice");
  request.set_role(v1::PRINCIPAL_ROLE_OPERATOR);
  grpc::ClientContext context;
  v1::CreateTokenResponse created;
  const auto tokens = v1::TokenService::NewStub(server_->InProcessChannel());
  ASSERT_TRUE(tokens->CreateToken(&context, request, &created).ok());
  const Codes codes = CodesOf(*stubs_, created.secret());
  EXPECT_EQ(codes.read, grpc::StatusCode::OK);
  EXPECT_EQ(codes.change, grpc::StatusCode::OK);
}

TEST_F(PageAccessTest, AClientOfASocketStaysWhoItIs) {
  const Stubs stubs(
      grpc::CreateChannel(server_->addresses().front(), grpc::InsecureChannelCredentials()));
  EXPECT_EQ(CodesOf(stubs, "tune_wrong").read, grpc::StatusCode::OK);
  EXPECT_EQ(CodesOf(stubs, "").change, grpc::StatusCode::OK);  // the daemon's own user
}

}  // namespace
}  // namespace tune::client
