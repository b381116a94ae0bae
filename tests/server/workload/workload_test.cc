// SPDX-License-Identifier: Apache-2.0
// What requests name, resolved on scripted GPUs.
#include "server/workload/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/steady_time.h"
#include "db/store.h"
#include "server/rpc/error_detail.h"
#include "tests/server/scripted_gpus.h"
#include "tests/server/test_server.h"

namespace tune::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::ErrorDetail DetailOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  const auto payload =
      status.GetPayload(absl::StrCat("type.googleapis.com/", detail.GetTypeName()));
  if (payload) detail.ParseFromString(std::string(*payload));
  return detail;
}

class WorkloadTest : public testing::Test {
 protected:
  absl::StatusOr<Workload> Resolve() {
    Probe();
    return ResolveWorkload(
        {.kernel_source = &source_, .dims = dims_, .dtype = dtype_, .device = device_}, catalogue_,
        *devices_, absl::Now() + absl::Seconds(60));
  }
  void Probe() {
    devices_.reset();
    workers_.reset();
    workers_ = gpus_.StartWorkers();
    devices_ = std::make_unique<Devices>(*workers_, *store_, ProbeTime::kWhenAsked);
  }
  void Replace(const std::string& from, const std::string& to) {
    std::string& text = *source_.mutable_spec_text();
    ASSERT_NE(text.find(from), std::string::npos) << from;
    absl::StrReplaceAll({{from, to}}, &text);
  }

  ScriptedGpus gpus_{2};
  std::unique_ptr<db::Store> store_ = db::Store::Open(gpus_.Path("tune.db")).value();
  const Catalogue catalogue_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Devices> devices_;
  v1::KernelSource source_ = ScaleKernel();
  Dims dims_;
  std::string dtype_;
  std::string device_;
};

TEST_F(WorkloadTest, OfNothingButAKernelTheDefaultsAreTaken) {
  const absl::StatusOr<Workload> workload = Resolve();
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_EQ(workload->Subject(), "scale n=4096 mode=0 f32");
  EXPECT_THAT(workload->device.ids, ElementsAre("cuda:0"));
  EXPECT_EQ(workload->traits().target, "sm_90a");
  EXPECT_EQ(workload->plan.reference.compile.target, "sm_90a");
}

TEST_F(WorkloadTest, ADeviceThatCannotBeUsedSaysWhy) {
  gpus_.Tell(1, "--canary unusable");
  device_ = "cuda:1";
  const absl::Status status = Resolve().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("device cuda:1 cannot be used"));
  EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_DEVICE_UNUSABLE);
  EXPECT_EQ(DetailOf(status).device(), "cuda:1");
}

TEST_F(WorkloadTest, ADeviceThatIsNotThereIsNotFound) {
  device_ = "cuda:7";
  const absl::Status status = Resolve().status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_NO_SUCH_DEVICE);
}

TEST_F(WorkloadTest, AProblemThatIsNotTheKernelsIsInvalid) {
  const auto expect_invalid = [&](const std::string& why) {
    const absl::Status status = Resolve().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_PROBLEM_INVALID) << status;
    EXPECT_EQ(DetailOf(status).kernel(), "scale");
  };
  dims_ = {{"n", 1 << 21}};  // beyond its most
  expect_invalid("1048576");
  dims_ = {{"rows", 4}};
  expect_invalid("rows");
  dims_ = {};
  dtype_ = "bf16";
  expect_invalid("bf16");
  dtype_ = "";
  // Only planning tells: these have a size for n > 0 alone.
  Replace(R"(shape: "n" role: ROLE_OUTPUT)", R"(shape: "n - 4096" role: ROLE_OUTPUT)");
  dims_ = {{"n", 1}};
  expect_invalid("-4095");
}

TEST_F(WorkloadTest, ADefaultThatTheProblemDoesNotAllowIsToldOnlyWhereItIsWanted) {
  dims_ = {{"n", 32}};  // the default of THREADS is 64
  const absl::StatusOr<Workload> workload = Resolve();
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_TRUE(absl::IsInvalidArgument(CompleteConfig(*workload, {}).status()));
  const absl::StatusOr<Config> given = CompleteConfig(*workload, {{{"THREADS", int64_t{32}}}});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(ToText(*given), "THREADS=32 ITEMS=1");
}

TEST_F(WorkloadTest, AnyIsEveryDeviceThatKeysDoNotTellApart) {
  device_ = "any";
  gpus_.Tell(1, "--uuid GPU-other");
  EXPECT_THAT(Resolve()->device.ids, ElementsAre("cuda:0", "cuda:1"));
  for (const char* unlike : {"--name other", "--driver 2", "--target sm_80", "--canary unusable"}) {
    gpus_.Tell(1, unlike);
    EXPECT_THAT(Resolve()->device.ids, ElementsAre("cuda:0")) << unlike;
  }
  gpus_.Tell(0, "--canary unusable");
  gpus_.Tell(1, "");
  EXPECT_THAT(Resolve()->device.ids, ElementsAre("cuda:1")) << "the default is one that works";
}

TEST_F(WorkloadTest, ANameOrAKindIsEveryUsableDeviceThatHasIt) {
  for (const char* device : {"Scripted Device", "cuda"}) {
    device_ = device;
    gpus_.Tell(0, "");
    gpus_.Tell(1, "");
    EXPECT_THAT(Resolve()->device.ids, ElementsAre("cuda:0", "cuda:1")) << device;
    gpus_.Tell(0, "--canary unusable");
    EXPECT_THAT(Resolve()->device.ids, ElementsAre("cuda:1")) << device;
    gpus_.Tell(1, "--canary unusable");
    EXPECT_TRUE(absl::IsFailedPrecondition(Resolve().status())) << device;
  }
  device_ = "scripted devise";
  const absl::Status status = Resolve().status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cuda:0, cuda:1, cpu; by name "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean 'scripted device'?"));
}

TEST_F(WorkloadTest, APartOfAGpuIsAnotherDevice) {
  device_ = "any";
  gpus_.Tell(0, "--name H200 --sms 132 --memory 140");
  for (const char* part : {"--sms 66 --memory 140", "--sms 16 --memory 16"}) {
    gpus_.Tell(1, absl::StrCat("--name H200 ", part));
    const absl::StatusOr<Workload> workload = Resolve();
    ASSERT_TRUE(workload.ok()) << workload.status();
    EXPECT_THAT(workload->device.ids, ElementsAre("cuda:0")) << part;
    EXPECT_EQ(workload->device.view.status.info.name, "H200");
  }
  EXPECT_EQ(devices_->List(SteadyNow() + absl::Seconds(60))->at(1).status.info.name,
            "H200 (16 SMs, 16 GiB)");
}

TEST_F(WorkloadTest, AnyNamesTheDefaultWhereNothingIsToRun) {
  Probe();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  for (const char* device : {"any", ""}) {
    const absl::StatusOr<DeviceView> view = NamedDevice(device, *devices_, deadline);
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(view->status.id, "cuda:0");
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(NamedDevice(std::string(1000, 'x'), *devices_, deadline).status()));
}

}  // namespace
}  // namespace tune::server
