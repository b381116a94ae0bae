// SPDX-License-Identifier: Apache-2.0
// The daemon as a process: killed in the middle of a sweep, stopped by a signal.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/test_server.h"

namespace tune::server {
namespace {

class Daemon {
 public:
  explicit Daemon(const std::string& dir) : address_("unix:" + dir + "/d.sock") {
    const std::string program = std::string(TUNE_BIN_DIR) + "/tunerd";
    const std::string state = dir + "/state";
    pid_ = fork();
    if (pid_ == 0) {
      execl(program.c_str(), "tunerd", "--state-dir", state.c_str(), "--listen", address_.c_str(),
            "--log-level", "warn", "--log-json", nullptr);
      _exit(127);
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    auto channel =
        grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
    EXPECT_TRUE(channel->WaitForConnected(absl::ToChronoTime(absl::Now() + absl::Seconds(30))));
    stubs_ = std::make_unique<Stubs>(channel);
  }
  ~Daemon() {
    if (pid_ > 0) End(SIGKILL);
  }

  Stubs& stubs() { return *stubs_; }
  // Returns the wait status.
  int End(int signal) {
    kill(pid_, signal);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return status;
  }

 private:
  const std::string address_;
  pid_t pid_ = -1;
  std::unique_ptr<Stubs> stubs_;
};

v1::Sweep Submit(Stubs& stubs, int64_t n, const ScaleOptions& kernel) {
  v1::SubmitSweepRequest request;
  *request.mutable_kernel_source() = ScaleKernel(kernel);
  (*request.mutable_dims())["n"] = n;
  request.set_device("cpu");
  request.set_strategy("exhaustive");
  request.mutable_budget()->set_seconds(300);
  request.set_cache_mode(v1::CACHE_MODE_WARM);
  v1::Sweep sweep;
  const grpc::Status status =
      Call(*stubs.sweeps, &v1::SweepService::Stub::SubmitSweep, request, &sweep);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return sweep;
}

// Watches until `count` trials were reported, and returns them by id.
std::map<int64_t, v1::Trial> AwaitTrials(Stubs& stubs, int64_t id, size_t count) {
  v1::GetSweepRequest request;
  request.set_sweep_id(id);
  v1::Sweep sweep;
  EXPECT_TRUE(Call(*stubs.sweeps, &v1::SweepService::Stub::GetSweep, request, &sweep).ok());
  std::map<int64_t, v1::Trial> trials;
  FollowJob(*stubs.jobs, sweep.job_id(), [&](const v1::JobEvent& event) {
    for (const v1::Trial& trial : ResultsIn<v1::Trial>(event)) trials[trial.id()] = trial;
    return trials.size() < count;
  });
  return trials;
}

TEST(RestartTest, KilledDaemonLosesNoReportedTrialAndGoesOn) {
  TempDir dir;
  int64_t running = 0;
  int64_t queued = 0;
  std::map<int64_t, v1::Trial> reported;
  {
    Daemon daemon(dir.path());
    running = Submit(daemon.stubs(), 1 << 20, {.items = "range(1, 9)"}).id();
    queued = Submit(daemon.stubs(), 4096, {}).id();
    reported = AwaitTrials(daemon.stubs(), running, 1);
    ASSERT_FALSE(reported.empty());
    daemon.End(SIGKILL);
  }
  Daemon daemon(dir.path());
  grpc::ClientContext context;
  v1::ListTrialsRequest request;
  request.set_sweep_id(running);
  auto reader = daemon.stubs().sweeps->ListTrials(&context, request);
  std::map<int64_t, v1::Trial> stored;
  for (v1::Trial trial; reader->Read(&trial);) stored[trial.id()] = trial;
  ASSERT_TRUE(reader->Finish().ok());
  for (const auto& [id, trial] : reported) {
    ASSERT_TRUE(stored.contains(id)) << "a trial that was reported is gone";
    EXPECT_EQ(stored[id].config().SerializeAsString(), trial.config().SerializeAsString());
    EXPECT_EQ(stored[id].measurement().latency_ns_median(),
              trial.measurement().latency_ns_median());
  }
  const v1::Sweep resumed = AwaitEnd(*daemon.stubs().sweeps, running);
  EXPECT_EQ(resumed.state(), v1::JOB_STATE_DONE) << resumed.message();
  EXPECT_EQ(resumed.progress().done(), 32u);
  EXPECT_EQ(resumed.progress().reused(), 0u) << "what it measured itself is not of earlier sweeps";
  grpc::ClientContext listing;
  reader = daemon.stubs().sweeps->ListTrials(&listing, request);
  size_t searched = 0;
  for (v1::Trial trial; reader->Read(&trial);) {
    searched += trial.purpose() == v1::TRIAL_PURPOSE_SEARCH ? 1 : 0;
  }
  EXPECT_EQ(searched, 32u) << "no config is measured twice";
  EXPECT_EQ(AwaitEnd(*daemon.stubs().sweeps, queued).state(), v1::JOB_STATE_DONE);
}

TEST(RestartTest, TerminatedDaemonLeavesCleanlyAndKeepsItsQueue) {
  TempDir dir;
  int64_t id = 0;
  {
    Daemon daemon(dir.path());
    id = Submit(daemon.stubs(), 1 << 20, {.items = "range(1, 9)"}).id();
    AwaitTrials(daemon.stubs(), id, 1);
    const absl::Time start = absl::Now();
    const int status = daemon.End(SIGTERM);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  }
  Daemon daemon(dir.path());
  EXPECT_EQ(AwaitEnd(*daemon.stubs().sweeps, id).state(), v1::JOB_STATE_DONE);
}

TEST(RestartTest, ASweepThatTwoDaemonsDiedWithIsNotTakenUpAgain) {
  TempDir dir;
  int64_t id = 0;
  for (int i = 0; i < 2; ++i) {
    Daemon daemon(dir.path());
    if (i == 0) id = Submit(daemon.stubs(), 1 << 20, {.items = "range(1, 9)"}).id();
    AwaitTrials(daemon.stubs(), id, 1);
    daemon.End(SIGKILL);
  }
  Daemon daemon(dir.path());
  const v1::Sweep sweep = AwaitEnd(*daemon.stubs().sweeps, id);
  EXPECT_EQ(sweep.state(), v1::JOB_STATE_FAILED);
  EXPECT_NE(sweep.message().find("2 daemons died"), std::string::npos) << sweep.message();
  // Submitted again it goes on from what is stored.
  const v1::Sweep again = Submit(daemon.stubs(), 1 << 20, {.items = "range(1, 9)"});
  EXPECT_NE(again.id(), id);
  const v1::Sweep done = AwaitEnd(*daemon.stubs().sweeps, again.id());
  EXPECT_EQ(done.state(), v1::JOB_STATE_DONE) << done.message();
  EXPECT_GE(done.progress().reused(), 2u);
}

}  // namespace
}  // namespace tune::server
