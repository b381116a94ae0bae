// SPDX-License-Identifier: Apache-2.0
// A whole server, with the real workers, on a disk that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/db/faulty_disk.h"
#include "tests/server/test_server.h"
#include "tune/v1/access.grpc.pb.h"

namespace tune::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

v1::SubmitSweepRequest ScaleSweep() {
  v1::SubmitSweepRequest request;
  *request.mutable_kernel_source() = ScaleKernel({.items = "range(1, 7)"});
  request.set_device("cpu");
  request.set_strategy("exhaustive");
  request.set_cache_mode(v1::CACHE_MODE_WARM);
  return request;
}

TEST(FaultsTest, ASweepWaitsForSpaceAndLosesNothing) {
  db::FaultyDisk disk;
  TempDir dir;
  const std::unique_ptr<Server> server =
      Server::Start({.state_dir = dir.path(), .worker_dir = TUNE_BIN_DIR}).value();
  Stubs stubs(server->InProcessChannel());
  v1::Sweep sweep;
  ASSERT_TRUE(Call(*stubs.sweeps, &v1::SweepService::Stub::SubmitSweep, ScaleSweep(), &sweep).ok());
  std::set<int64_t> reported;
  bool paused = false;
  const auto follow = [&](const v1::JobEvent& event) {
    for (const v1::Trial& trial : ResultsIn<v1::Trial>(event)) reported.insert(trial.id());
    for (const v1::Sweep& one : ResultsIn<v1::Sweep>(event)) sweep = one;
    if (!reported.empty() && !paused) disk.write_error = ENOSPC;
    if (sweep.message().find("paused") == std::string::npos || paused) return true;
    paused = true;
    EXPECT_THAT(sweep.message(),
                AllOf(HasSubstr("free some space"), HasSubstr("goes on by itself")));
    v1::Sweep refused;
    const grpc::Status status =
        Call(*stubs.sweeps, &v1::SweepService::Stub::SubmitSweep, ScaleSweep(), &refused);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    v1::ServerStatus told;
    EXPECT_TRUE(Call(*stubs.server, &v1::ServerService::Stub::GetStatus, {}, &told).ok())
        << "reads go on";
    disk.write_error = 0;
    return true;
  };
  ASSERT_TRUE(FollowJob(*stubs.jobs, sweep.job_id(), follow).ok());
  EXPECT_TRUE(paused);
  EXPECT_EQ(sweep.state(), v1::JOB_STATE_DONE) << sweep.message();
  EXPECT_EQ(sweep.progress().done(), 24u);

  grpc::ClientContext listing;
  v1::ListTrialsRequest request;
  request.set_sweep_id(sweep.id());
  const auto trials = stubs.sweeps->ListTrials(&listing, request);
  std::multiset<std::string> searched;
  for (v1::Trial trial; trials->Read(&trial); reported.erase(trial.id())) {
    if (trial.purpose() == v1::TRIAL_PURPOSE_SEARCH) {
      searched.insert(trial.config().SerializeAsString());
    }
  }
  ASSERT_TRUE(trials->Finish().ok());
  EXPECT_TRUE(reported.empty()) << "what was reported is stored";
  EXPECT_EQ(searched.size(), 24u) << "each once";
}

class RevocationTest : public testing::Test {
 protected:
  RevocationTest() {
    (void)StartLog("off", LogFormat::kText);
    Start();
  }
  // Listens nowhere.
  void Start() {
    server_ = nullptr;
    server_ = Server::Start({.state_dir = dir_.path(), .worker_dir = TUNE_BIN_DIR}).value();
    stubs_ = std::make_unique<Stubs>(server_->InProcessChannel());
    tokens_ = v1::TokenService::NewStub(server_->InProcessChannel());
  }
  // A token that is revoked while the disk is full.
  void MakeRevoked(const std::string& name) {
    v1::CreateTokenRequest create;
    create.set_name(name);
    create.set_role(v1::PRINCIPAL_ROLE_SUBMITTER);
    v1::CreateTokenResponse made;
    ASSERT_TRUE(Call(*tokens_, &v1::TokenService::Stub::CreateToken, create, &made).ok());
    disk_.write_error = ENOSPC;
    v1::RevokeTokenRequest revoke;
    revoke.set_name(name);
    v1::RevokeTokenResponse revoked;
    EXPECT_EQ(Call(*tokens_, &v1::TokenService::Stub::RevokeToken, revoke, &revoked).error_code(),
              grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(NotStored(), 1u);
  }
  uint32_t NotStored() {
    v1::ServerStatus status;
    EXPECT_TRUE(Call(*stubs_->server, &v1::ServerService::Stub::GetStatus, {}, &status).ok());
    return status.unstored_revocation_count();
  }
  bool IsRevoked(const std::string& name) {
    v1::ListTokensResponse list;
    EXPECT_TRUE(Call(*tokens_, &v1::TokenService::Stub::ListTokens, {}, &list).ok());
    for (const v1::Token& token : list.tokens()) {
      if (token.name() == name) return token.revoked_unix_ms() != 0;
    }
    return false;
  }

  db::FaultyDisk disk_;
  TempDir dir_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Stubs> stubs_;
  std::unique_ptr<v1::TokenService::Stub> tokens_;
};

TEST_F(RevocationTest, ItIsStoredAtTheStop) {
  MakeRevoked("eve");
  disk_.write_error = 0;
  Start();
  EXPECT_TRUE(IsRevoked("eve"));
}

TEST_F(RevocationTest, ItIsStoredOnceThereIsSpace) {
  MakeRevoked("eve");
  disk_.write_error = 0;
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (NotStored() > 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(NotStored(), 0u);
}

TEST_F(RevocationTest, ItIsNotAcknowledgedAndLostIfTheDiskStaysFull) {
  MakeRevoked("eve");
  server_ = nullptr;
  disk_.write_error = 0;
  Start();
  EXPECT_FALSE(IsRevoked("eve")) << "as the failed call has said";
}

// Its parameter: the disk is out of files, not of bytes.
class FullDiskTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Of, FullDiskTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Files" : "Bytes");
});

// Leaves room for the store, and none for what the compiler writes.
void FillDisk(const std::string& state, const std::string& rest, bool files) {
  std::filesystem::create_directories(rest);
  if (!files) {
    const size_t left = std::filesystem::space(state).available - (size_t{160} << 10);
    std::ofstream(rest + "/all") << std::string(left, 'x');
  }
  for (int i = 0; files && std::ofstream(absl::StrCat(rest, "/", i)); ++i) continue;
}

TEST_P(FullDiskTest, WithoutRoomForCompilersASweepWaitsAndNoConfigFails) {
  TempDir dir;
  const std::string state = dir.path() + "/state";
  std::filesystem::create_directories(state);
  if (mount("tmpfs", state.c_str(), "tmpfs", 0, "size=200m,nr_inodes=2000,mode=0700") != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  const absl::Cleanup unmount = [&] { umount2(state.c_str(), MNT_DETACH); };
  const std::unique_ptr<Server> server =
      Server::Start({.state_dir = state, .worker_dir = TUNE_BIN_DIR}).value();
  Stubs stubs(server->InProcessChannel());
  const std::string rest = state + "/rest";
  FillDisk(state, rest, GetParam());
  v1::Sweep sweep;
  ASSERT_TRUE(Call(*stubs.sweeps, &v1::SweepService::Stub::SubmitSweep, ScaleSweep(), &sweep).ok());
  bool paused = false;
  const auto follow = [&](const v1::JobEvent& event) {
    for (const v1::Sweep& one : ResultsIn<v1::Sweep>(event)) sweep = one;
    if (sweep.message().find("paused") == std::string::npos) return true;
    paused = true;
    std::filesystem::remove_all(rest);
    return true;
  };
  ASSERT_TRUE(FollowJob(*stubs.jobs, sweep.job_id(), follow).ok());
  EXPECT_TRUE(paused);
  EXPECT_EQ(sweep.state(), v1::JOB_STATE_DONE) << sweep.message();
  EXPECT_EQ(sweep.progress().done(), 24u);
  EXPECT_FALSE(sweep.progress().outcomes().contains("compile_failed"));
}

}  // namespace
}  // namespace tune::server
