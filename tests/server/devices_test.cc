// SPDX-License-Identifier: Apache-2.0
// Which device is taken when none is asked for. The GPU is a scripted worker, which faults when
// told to.
#include "server/devices.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "db/store.h"
#include "kernels/catalogue.h"
#include "server/catalogue.h"
#include "server/pool/workers.h"
#include "server/record_book.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

class DevicesTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string bin = dir_.path() + "/bin";
    std::filesystem::create_directories(bin);
    const std::string program = bin + "/tune-device-cuda";
    std::ofstream(program) << "#!/bin/sh\nexec " << SCRIPTED_WORKER << " device --state "
                           << dir_.path() << " --target sm_90a \"$@\"\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    workers_ =
        Workers::Create({.state_dir = dir_.path() + "/state", .worker_dir = bin}).value();
    store_ = db::Store::Open(dir_.path() + "/tune.db").value();
    devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
  }
  std::string ChosenId() {
    absl::StatusOr<DeviceView> view = devices_->Choose("", absl::Now() + absl::Seconds(60));
    return view.ok() ? view->status.id : view.status().ToString();
  }
  DeviceLease& gpu() { return *workers_->devices()[0]; }
  // Its worker dies, and nothing has started another yet.
  void MakeSuspect() {
    ASSERT_TRUE(gpu().Prepare({}, "ok", 1).ok());
    RunRequest request;
    request.binary = "crash";
    ASSERT_EQ(gpu().Run(request)->outcome, Outcome::kFaulted);
    ASSERT_EQ(gpu().Status().state, DeviceState::kSuspect);
  }

  TempDir dir_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<Devices> devices_;
};

TEST_F(DevicesTest, ASuspectGpuIsStillTheDefault) {
  EXPECT_EQ(ChosenId(), "cuda:0");
  MakeSuspect();
  EXPECT_EQ(ChosenId(), "cuda:0") << "its work does not go to the CPU unasked";
}

TEST_F(DevicesTest, LookUpsAreAnsweredForASuspectGpu) {
  ASSERT_EQ(ChosenId(), "cuda:0");
  std::vector<absl::Status> faults;
  const Catalogue catalogue = Catalogue::Parse(LoadCatalogue().value(), faults);
  const std::unique_ptr<RecordBook> book =
      RecordBook::Open(*store_, catalogue, *devices_).value();
  const RecordQuery query = {.kernel_name = "softmax"};
  const Config before = book->Lookup(query)->config;
  const Config on_cpu = book->Lookup({.kernel_name = "softmax", .device = "cpu"})->config;
  ASSERT_NE(ToText(before), ToText(on_cpu)) << "the two targets have different defaults";
  MakeSuspect();
  EXPECT_EQ(ToText(book->Lookup(query)->config), ToText(before));
}

}  // namespace
}  // namespace tune::server
