// SPDX-License-Identifier: Apache-2.0
// A sweep on several GPUs, which are scripted workers. Its kernels take as long as they are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "db/store.h"
#include "server/sweep/submission.h"
#include "server/sweep/sweep_runner.h"
#include "server/sweep/sweeps.h"
#include "tests/server/scripted_gpus.h"

namespace tune::server {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kPatience = absl::Minutes(2);

// Each config's run takes `milliseconds`.
v1::KernelSource SlowKernel(int configs, int milliseconds) {
  std::vector<std::string> runs;
  for (int i = 0; i < configs; ++i)
    runs.push_back(absl::StrCat("'slow_", milliseconds, "_", i, "'"));
  v1::KernelSource source;
  source.set_spec_name("slow.textproto");
  source.set_spec_text(absl::StrCat(R"spec(
name: "slow" summary: "slow" source: "slow.cu" entry: "slow"
dims { name: "n" default_value: 1000 }
dtypes: "f32"
params { name: "COMPILE" values: "['ok']" default_value: "'ok'" }
params { name: "RUN" values: "[)spec",
                                    absl::StrJoin(runs, ", "), R"spec(]" default_value: ")spec",
                                    runs[0], R"spec(" }
args { name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT } }
launch { grid: "1" block: "32" }
work { flops: "n" bytes: "8 * n" peak: "'f32'" }
reference { entry: "slow_reference" launch { grid: "1" block: "1" } }
)spec"));
  (*source.mutable_files())["slow.cu"] = R"(
extern "C" __global__ void slow(float* y) {}
extern "C" __global__ void slow_reference(float* y) {}
)";
  return source;
}

class SpreadSweepTest : public testing::Test {
 protected:
  static constexpr int kGpus = 3;

  SpreadSweepTest() {
    for (int i = 0; i < kGpus; ++i) gpus_.Tell(i, absl::StrCat("--uuid GPU-", i));
  }
  ~SpreadSweepTest() override {
    if (scheduler_ != nullptr) scheduler_->Stop();
    if (devices_ != nullptr) devices_->Stop();
    sweeps_.reset();
  }

  void Start() {
    workers_ = gpus_.StartWorkers();
    devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
    records_ = RecordBook::Open(*store_, catalogue_, *devices_, solver_).value();
    runner_ =
        std::make_unique<SweepRunner>(*store_, *workers_, *records_, *artifacts_, writer_, solver_,
                                      [](const std::string&) { return int64_t{1} << 30; });
    Scheduler::Options options;
    options.why_out_of_use = [this](const std::string& id) {
      return WhyOutOfUse(*devices_->Known(), id);
    };
    options.had_device = [this](const std::string&, const std::string& id, absl::Duration time) {
      MutexLock lock(mutex_);
      had_[id] += time;
    };
    scheduler_ =
        std::make_unique<Scheduler>(options, *store_, devices_->turns(), ticker_, DeviceCare());
    sweeps_ = Sweeps::Start({}, *store_, *scheduler_, [this](SweepWork& work, JobContext& context) {
                return runner_->Run(work, context);
              }).value();
  }
  absl::StatusOr<Submission> Check(const std::string& devices, int configs, int milliseconds) {
    v1::SubmitSweepRequest request;
    *request.mutable_kernel_source() = SlowKernel(configs, milliseconds);
    request.set_device(devices);
    return CheckSubmission(request, catalogue_, *devices_, solver_, SteadyNow() + kPatience, {});
  }
  int64_t Submit(const std::string& devices, int configs, int milliseconds) {
    const absl::StatusOr<Submission> submission = Check(devices, configs, milliseconds);
    EXPECT_TRUE(submission.ok()) << submission.status();
    return sweeps_->Submit(*submission).value().row.id;
  }
  // The sweep once its search is over.
  SweepView AwaitSearched(int64_t id) {
    const absl::Time limit = SteadyNow() + kPatience;
    SweepView view = sweeps_->Get(id).value();
    while (view.end_message.empty() && !db::IsFinished(view.row.job.state) && SteadyNow() < limit) {
      absl::SleepFor(absl::Milliseconds(20));
      view = sweeps_->Get(id).value();
    }
    return view;
  }
  SweepView AwaitEnd(int64_t id) {
    const absl::Time limit = SteadyNow() + kPatience;
    SweepView view = sweeps_->Get(id).value();
    while (!db::IsFinished(view.row.job.state) && SteadyNow() < limit) {
      absl::SleepFor(absl::Milliseconds(20));
      view = sweeps_->Get(id).value();
    }
    return view;
  }
  std::vector<double> SecondsOfTrials(int64_t sweep) {
    const std::vector<Trial> trials = store_->TrialsOfSweep(sweep).value();
    std::vector<double> seconds;
    for (const Trial& trial : trials) seconds.push_back(trial.evaluate_seconds);
    return seconds;
  }
  // How many of its trials of a purpose a further device measured, by what their messages say.
  std::map<std::string, int> HelpedBy(int64_t sweep, TrialPurpose purpose) {
    std::map<std::string, int> helped;
    const std::vector<Trial> trials = store_->TrialsOfSweep(sweep).value();
    for (const Trial& trial : trials) {
      if (trial.purpose == purpose && !trial.message.empty()) ++helped[trial.message];
    }
    return helped;
  }

  ScriptedGpus gpus_{kGpus};
  std::unique_ptr<db::Store> store_ = db::Store::Open(gpus_.Path("tune.db")).value();
  const Catalogue catalogue_;
  SpaceSolver solver_;
  std::unique_ptr<SnapshotFolder> snapshots_ =
      SnapshotFolder::Open(gpus_.Path("snapshots"), SnapshotFolder::Use::kWrite, 2).value();
  std::unique_ptr<ArtifactFolder> artifacts_ =
      ArtifactFolder::Open(gpus_.Path("snapshots"), ArtifactFolder::Use::kWrite, int64_t{1} << 30)
          .value();
  SnapshotWriter writer_{*snapshots_, []() -> absl::StatusOr<std::string> {
                           return absl::UnimplementedError("no snapshots in this test");
                         }};
  WatchTicker ticker_{{.period = absl::Milliseconds(20)}};
  Mutex mutex_;
  std::map<std::string, absl::Duration> had_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Devices> devices_;
  std::unique_ptr<RecordBook> records_;
  std::unique_ptr<SweepRunner> runner_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Sweeps> sweeps_;
};

// The property share_of_one has the time as a share of one GPU's; the target is 1.15 / N.
TEST_F(SpreadSweepTest, SlowKernelsAreMeasuredOnAllGpusAtOnce) {
  constexpr int kConfigs = 60;
  constexpr int kMilliseconds = 200;
  Start();
  const int64_t id = Submit("all", kConfigs, kMilliseconds);
  const SweepView searched = AwaitSearched(id);
  ASSERT_EQ(searched.progress.done, kConfigs) << searched.row.job.message;
  // The time of one GPU for all of them, with what the host adds to each.
  double of_one = 0;
  for (const double seconds : SecondsOfTrials(id)) of_one += seconds;
  EXPECT_GE(of_one, kConfigs * kMilliseconds / 1000.0);
  EXPECT_LT(searched.progress.elapsed_seconds, of_one * 2 / 3) << "two or more at a time";
  RecordProperty("share_of_one", absl::StrCat(searched.progress.elapsed_seconds / of_one));
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    EXPECT_THAT(searched.end_message, HasSubstr(absl::StrCat(" on cuda:", gpu)));
  }
  const std::map<std::string, int> helped = HelpedBy(id, TrialPurpose::kSearch);
  EXPECT_EQ(helped.size(), 2u) << "the others say so";
  for (const auto& [message, count] : helped) {
    EXPECT_THAT(message, HasSubstr("measured on cuda:"));
    EXPECT_GT(count, kConfigs / 10);
  }
  ASSERT_TRUE(scheduler_->Cancel(searched.row.job.id, SteadyNow() + kPatience).ok());
  scheduler_->Stop();
  MutexLock lock(mutex_);
  for (const auto& [device, time] : had_) {
    EXPECT_GT(time, absl::Seconds(of_one / kGpus / 4)) << device << " is charged for its help";
  }
}

TEST_F(SpreadSweepTest, TheBestAreConfirmedOnOneDeviceAndItsRecordIsPublished) {
  Start();
  const int64_t id = Submit("cuda:2, cuda:0", 12, 40);
  const SweepView done = AwaitEnd(id);
  ASSERT_EQ(done.row.job.state, db::JobState::kDone) << done.row.job.message;
  ASSERT_TRUE(done.result);
  EXPECT_GE(done.result->confirm_rounds, 3u);
  EXPECT_TRUE(HelpedBy(id, TrialPurpose::kConfirm).empty());
  EXPECT_THAT(done.end_message, Not(HasSubstr("cuda:1"))) << "it was not named";
  EXPECT_EQ(store_->RecordsAfter(0)->size(), 1u);
}

// Its canary fails when it is opened to help.
TEST_F(SpreadSweepTest, AGpuThatFailsLeavesTheSweepToTheOthers) {
  Start();
  ASSERT_TRUE(devices_->List(SteadyNow() + kPatience).ok());
  gpus_.Tell(1, "--uuid GPU-1 --canary unusable");
  const int64_t id = Submit("all", 24, 50);
  const SweepView searched = AwaitSearched(id);
  EXPECT_EQ(searched.progress.done, 24u) << searched.row.job.message;
  EXPECT_EQ(searched.progress.outcomes.at(Outcome::kOk), 24u);
  EXPECT_THAT(searched.end_message, Not(HasSubstr("cuda:1")));
}

TEST_F(SpreadSweepTest, UnequalUnknownAndRepeatedDevicesAreRefused) {
  gpus_.Tell(1, "--name other");
  gpus_.Tell(2, "--canary unusable");
  Start();
  const auto refusal = [&](const std::string& devices) {
    return std::string(Check(devices, 2, 1).status().message());
  };
  EXPECT_THAT(refusal("cuda:0,cuda:1"), HasSubstr("cuda:0 is scripted device with driver 1, cuda:1 "
                                                  "is other with driver 1: leave one out"));
  EXPECT_THAT(refusal("cuda:0,cuda:0"), HasSubstr("--devices names cuda:0 twice"));
  EXPECT_THAT(refusal("cuda:0,cuda:2"), HasSubstr("device cuda:2 cannot be used"));
  EXPECT_THAT(refusal("cuda:0,cuda:7"), HasSubstr("no device 'cuda:7'"));
  const absl::StatusOr<Submission> all = Check("all", 2, 1);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->device_ids, testing::ElementsAre("cuda:0"));
  EXPECT_FALSE(all->search.spread) << "there is one";
}

}  // namespace
}  // namespace tune::server
