// SPDX-License-Identifier: Apache-2.0
// Which device is taken when none is asked for. The GPU is a scripted worker, which faults when
// told to.
#include "server/devices/devices.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "db/store.h"
#include "kernels/catalogue.h"
#include "server/kernels/catalogue.h"
#include "server/records/record_book.h"
#include "server/supervision/workers.h"
#include "tests/server/scripted_gpus.h"

namespace tune::server {
namespace {

class DevicesTest : public testing::Test {
 protected:
  void SetUp() override {
    StartWorkers();
    store_ = db::Store::Open(gpus_.Path("tune.db")).value();
    devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
  }
  void StartWorkers() { workers_ = gpus_.StartWorkers(); }
  std::string ChosenId() {
    absl::StatusOr<DeviceView> view = devices_->Choose("", absl::Now() + absl::Seconds(60));
    return view.ok() ? view->status.id : view.status().ToString();
  }
  DeviceSupervisor& gpu() { return *workers_->devices()[0]; }
  // A driver that is not there, or a canary that fails, until it is called off.
  void Break(const std::string& how) { gpus_.Tell(0, how); }
  void Mend() { gpus_.Tell(0, ""); }
  DeviceView View(const std::string& id) {
    return devices_->Choose(id, absl::Now() + absl::Seconds(60)).value();
  }
  bool Becomes(DeviceState state) {
    for (int i = 0; i < 1500; ++i) {
      if (gpu().Status().state == state) return true;
      absl::SleepFor(absl::Milliseconds(20));
    }
    return false;
  }
  // Its worker dies, and nothing has started another yet.
  void MakeSuspect() {
    ASSERT_TRUE(gpu().Prepare({}, "ok", 1).ok());
    RunRequest request;
    request.program.binary = "crash";
    ASSERT_EQ(gpu().Run(request)->outcome, Outcome::kFaulted);
    ASSERT_EQ(gpu().Status().state, DeviceState::kSuspect);
  }

  ScriptedGpus gpus_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Devices> devices_;
};

TEST_F(DevicesTest, EveryLanguageThatIsCompiledForADeviceIsNamed) {
  EXPECT_EQ(View("cuda:0").compilers, "scripted 1, scripted PTX 1");
}

TEST(ManyDevicesTest, ADeviceThatHangsDelaysNoOther) {
  ScriptedGpus gpus(3);
  for (const int hanging : {0, 1}) gpus.Tell(hanging, "--canary hang");
  const std::unique_ptr<Workers> workers = gpus.StartWorkers();
  const std::unique_ptr<db::Store> store = db::Store::Open(gpus.Path("tune.db")).value();
  const Devices devices(*workers, *store, ProbeTime::kWhenAsked);
  const absl::Time start = absl::Now();
  const auto view_of = [&](const char* id) {
    return devices.Choose(id, start + absl::Seconds(60));
  };
  EXPECT_EQ(view_of("cuda:2")->status.state, DeviceState::kHealthy);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10)) << "a canary has 10 s, and is tried twice";
  EXPECT_TRUE(absl::IsUnavailable(devices.Choose("", start).status()));
  EXPECT_NE(view_of("cuda:0")->status.state, DeviceState::kHealthy);
  EXPECT_NE(view_of("cuda:1")->status.state, DeviceState::kHealthy);
  EXPECT_LT(absl::Now() - start, absl::Seconds(30)) << "both were tried at the same time";
}

// A sweep that an earlier daemon left takes its turn while devices are still being probed.
TEST_F(DevicesTest, AProbeLeavesAJobsWorkerAlone) {
  const auto turn = devices_->turns().Take("cuda:0", "a test", {});
  ASSERT_TRUE(turn.ok());
  ASSERT_TRUE(gpu().Prepare({}, "ok", 1).ok());
  RunRequest request;
  request.program.binary = "count";
  ASSERT_EQ(gpu().Run(request)->message, "3") << "after the canary and the reference";
  EXPECT_EQ(View("cuda:0").compilers, "scripted 1, scripted PTX 1") << "it is known all the same";
  EXPECT_EQ(gpu().Run(request)->message, "4") << "in the same process";
}

TEST_F(DevicesTest, ADeviceThatWasNeverOpenedHasNoCompilers) {
  Break("--broken no_driver");
  devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked,
                                       RetryPauses{.for_jobs = absl::Milliseconds(50)});
  std::optional<DeviceTurns::Turn> turn = devices_->turns().TryTake("cuda:0", "a test");
  ASSERT_TRUE(turn);
  EXPECT_EQ(View("cuda:0").status.message, "not opened yet");
  EXPECT_EQ(View("cuda:0").compilers, "") << "what it is compiled for is not known";
  turn.reset();
  ASSERT_TRUE(devices_->Retry("cuda:0", absl::Now() + absl::Seconds(60), {}).ok());
  EXPECT_NE(View("cuda:0").status.message, "not opened yet");
}

TEST_F(DevicesTest, ASuspectGpuIsStillTheDefault) {
  EXPECT_EQ(ChosenId(), "cuda:0");
  MakeSuspect();
  EXPECT_EQ(ChosenId(), "cuda:0") << "its work does not go to the CPU unasked";
}

TEST_F(DevicesTest, ADeviceThatCannotBeUsedIsTriedAgainByItself) {
  for (const char* how : {"--broken no_driver", "--canary unusable"}) {
    Break(how);
    devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kAtOnce,
                                         RetryPauses{.first = absl::Milliseconds(50)});
    const DeviceView view = View("cuda:0");
    EXPECT_NE(view.status.state, DeviceState::kHealthy) << how;
    EXPECT_LT(view.next_try, absl::Now() + absl::Minutes(11));
    EXPECT_NE(view.status.message.find("tunectl device retry cuda:0"), std::string::npos)
        << view.status.message;
    Mend();
    EXPECT_TRUE(Becomes(DeviceState::kHealthy)) << gpu().Status().message;
    EXPECT_EQ(View("cuda:0").next_try, absl::InfiniteFuture());
    devices_.reset();
    StartWorkers();
  }
}

TEST_F(DevicesTest, ThePausesGrow) {
  Break("--broken no_driver");
  devices_ = std::make_unique<Devices>(
      *workers_, *store_, ProbeTime::kAtOnce,
      RetryPauses{.first = absl::Milliseconds(10), .longest = absl::Minutes(5)});
  ASSERT_NE(View("cuda:0").status.state, DeviceState::kHealthy);
  // Each pause is twice the one before: some tries on, the next is seconds away.
  absl::Duration away;
  for (int i = 0; i < 1500 && away < absl::Seconds(2); ++i) {
    away = View("cuda:0").next_try - absl::Now();
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_GE(away, absl::Seconds(2));
  EXPECT_LE(away, absl::Minutes(5));
}

TEST_F(DevicesTest, AnOperatorsWordTriesItAtOnce) {
  Break("--canary unusable");
  devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kAtOnce,
                                       RetryPauses{.first = absl::Hours(1)});
  ASSERT_EQ(View("cuda:0").status.state, DeviceState::kQuarantined);
  const auto retry = [&](const std::string& id) {
    return devices_->Retry(id, absl::Now() + absl::Seconds(60), [] { return false; });
  };
  absl::StatusOr<std::vector<DeviceView>> tried = retry("cuda:0");
  ASSERT_TRUE(tried.ok()) << tried.status();
  ASSERT_EQ(tried->size(), 1u);
  EXPECT_EQ(tried->at(0).status.state, DeviceState::kQuarantined);
  Mend();
  tried = retry("cuda:0");
  ASSERT_TRUE(tried.ok()) << tried.status();
  EXPECT_EQ(tried->at(0).status.state, DeviceState::kHealthy);
  EXPECT_EQ(tried->at(0).next_try, absl::InfiniteFuture());
  EXPECT_TRUE(absl::IsNotFound(retry("cuda:99").status()));
  tried = retry("");
  ASSERT_TRUE(tried.ok()) << tried.status();
  for (const DeviceView& view : *tried) EXPECT_NE(view.status.id, "cuda:0") << "it is well";
}

TEST_F(DevicesTest, ADeviceInUseIsLeftAlone) {
  Break("--canary unusable");
  devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kAtOnce,
                                       RetryPauses{.first = absl::Hours(1)});
  ASSERT_EQ(View("cuda:0").status.state, DeviceState::kQuarantined);
  const auto turn = devices_->turns().Take("cuda:0", "a test", {});
  ASSERT_TRUE(turn.ok());
  int asked = 0;
  EXPECT_TRUE(absl::IsCancelled(
      devices_->Retry("cuda:0", absl::Now() + absl::Seconds(60), [&] { return ++asked > 3; })
          .status()));
}

TEST_F(DevicesTest, LookUpsAreAnsweredForASuspectGpu) {
  ASSERT_EQ(ChosenId(), "cuda:0");
  std::vector<absl::Status> faults;
  const Catalogue catalogue = Catalogue::Parse(LoadCatalogue().value(), faults);
  SpaceSolver solver;
  const std::unique_ptr<RecordBook> book =
      RecordBook::Open(*store_, catalogue, *devices_, solver).value();
  const RecordQuery query = {.kernel_name = "softmax"};
  const Config before = book->Lookup(query)->config;
  const Config on_cpu = book->Lookup({.kernel_name = "softmax", .device = "cpu"})->config;
  ASSERT_NE(ToText(before), ToText(on_cpu)) << "the two targets have different defaults";
  MakeSuspect();
  EXPECT_EQ(ToText(book->Lookup(query)->config), ToText(before));
}

// What the store has of the GPU's memory, and when it was measured.
class CeilingsTest : public DevicesTest {
 protected:
  void SetUp() override {
    DevicesTest::SetUp();
    ASSERT_TRUE(gpu().Open().ok());
    info_ = gpu().Status().info;
  }
  db::CeilingRow Row(const std::string& name, double value, absl::Duration age) const {
    return {.device_name = info_.name,
            .driver = info_.driver,
            .ceiling = {name, value, CeilingSource::kMeasured},
            .measured_unix_ms = absl::ToUnixMillis(absl::Now() - age),
            .uuid = info_.uuid};
  }
  std::vector<db::CeilingRow> Stored(const std::string& uuid) {
    return store_->GetCeilings(info_.name, info_.driver, uuid).value();
  }
  static bool IsFresh(const db::CeilingRow& row) {
    return absl::Now() - absl::FromUnixMillis(row.measured_unix_ms) < absl::Hours(1);
  }

  DeviceInfo info_;
};

TEST_F(CeilingsTest, AStaleOneIsMeasuredBeforeItIsFreshAgain) {
  const absl::Duration old = absl::Hours(24 * 31);
  // As a daemon that has run for a month: the supervisor knows them, the store how old they are.
  ASSERT_TRUE(store_->PutCeilings({Row("dram_copy", 7e11, old), Row("f32", 7e12, old)}).ok());
  gpu().SetCeilings(
      {{"dram_copy", 7e11, CeilingSource::kMeasured}, {"f32", 7e12, CeilingSource::kMeasured}});
  ASSERT_TRUE(devices_->KeepCeilings(gpu()).ok());
  for (const db::CeilingRow& row : Stored(info_.uuid)) EXPECT_FALSE(IsFresh(row));
  devices_->RestoreCeilings(gpu());
  EXPECT_TRUE(gpu().Status().ceilings.empty()) << "so that the next sweep measures them";
  ASSERT_TRUE(gpu().Ceilings().ok());
  ASSERT_TRUE(devices_->KeepCeilings(gpu()).ok());
  const std::vector<db::CeilingRow> rows = Stored(info_.uuid);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].ceiling.value, 1e12) << "as the worker measures it";
  for (const db::CeilingRow& row : rows) EXPECT_TRUE(IsFresh(row));
  EXPECT_TRUE(gpu().Status().unsaved.empty());
}

TEST_F(CeilingsTest, WhatIsFreshIsNotMeasuredAgain) {
  ASSERT_TRUE(store_
                  ->PutCeilings({Row("dram_copy", 7e11, absl::Hours(1)),
                                 Row("dram_triad", 6e11, absl::Hours(24 * 31))})
                  .ok());
  devices_->RestoreCeilings(gpu());
  ASSERT_EQ(gpu().Ceilings()->size(), 1u) << "only the suite measures triads";
  EXPECT_EQ(gpu().Ceilings()->at(0).value, 7e11);
}

TEST_F(CeilingsTest, AnotherGpuOfTheSameNameHasItsOwn) {
  db::CeilingRow others = Row("dram_copy", 5e12, absl::ZeroDuration());
  others.uuid = "another";
  ASSERT_TRUE(store_->PutCeilings({Row("dram_copy", 7e11, absl::Hours(1)), others}).ok());
  devices_->RestoreCeilings(gpu());
  ASSERT_EQ(gpu().Status().ceilings.size(), 1u);
  EXPECT_EQ(gpu().Status().ceilings[0].value, 7e11);
  const DeviceView view = devices_->Choose("cuda:0", absl::Now() + absl::Seconds(60)).value();
  ASSERT_EQ(view.ceilings.size(), 1u);
  EXPECT_EQ(view.ceilings[0].row.uuid, info_.uuid);
}

}  // namespace
}  // namespace tune::server
