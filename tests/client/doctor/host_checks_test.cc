// SPDX-License-Identifier: Apache-2.0
#include "client/doctor/host_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune::client {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// A tree of /proc, /sys and /dev.
class CheckHostTest : public testing::Test {
 protected:
  CheckHostTest()
      : root_(testing::TempDir() + "doctor." +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~CheckHostTest() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void PutDriver() {
    Put("/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Jun  3\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n");
    Put("/dev/nvidiactl", "");
  }
  // Each check as "driver 1: driver 580.159.04 -> advice".
  std::vector<std::string> Checks(HostView host = {}) {
    host.root = root_;
    v1::Diagnosis diagnosis;
    CheckHost(host, diagnosis);
    std::vector<std::string> lines;
    for (const v1::DoctorCheck& check : diagnosis.checks()) {
      lines.push_back(absl::StrCat(check.name(), " ", static_cast<int>(check.verdict()), ": ",
                                   check.finding(), " -> ", check.advice()));
    }
    return lines;
  }

  const std::string root_;
};

TEST_F(CheckHostTest, AHostWithoutGpusIsInOrder) {
  EXPECT_THAT(Checks(), Contains(HasSubstr("driver 1: no NVIDIA GPU")));
}

TEST_F(CheckHostTest, AGpuWithoutADriverFails) {
  Put("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  Put("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  Put("/sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");  // its sound
  Put("/sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
  EXPECT_THAT(Checks(), Contains(HasSubstr("driver 3: 1 NVIDIA GPU(s), but no driver is loaded")));
}

TEST_F(CheckHostTest, ADriverWithoutItsDeviceFileFails) {
  PutDriver();
  std::filesystem::remove(root_ + "/dev/nvidiactl");
  EXPECT_THAT(Checks(), Contains(HasSubstr("driver 3: driver 580.159.04, but no /dev/nvidiactl")));
}

TEST_F(CheckHostTest, CountersNeedACapabilityOrAnOpenDriver) {
  PutDriver();
  Put("/proc/driver/nvidia/params", "EnableMSI: 1\nRmProfilingAdminOnly: 1\n");
  Put("/proc/4711/status", "Name:\ttunerd\nCapEff:\t0000000000000000\n");
  const HostView daemon{.counting = "4711"};
  EXPECT_THAT(Checks(daemon), Contains(HasSubstr("counters 2: the driver reserves")));
  Put("/proc/4711/status", "Name:\ttunerd\nCapEff:\t0000004000000000\n");  // CAP_PERFMON
  EXPECT_THAT(Checks(daemon), Contains(HasSubstr("counters 1: ")));
  Put("/proc/4711/status", "Name:\ttunerd\nCapEff:\t0000000000000000\n");
  Put("/proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n");
  EXPECT_THAT(Checks(daemon), Contains(HasSubstr("counters 1: the driver lets every user")));
}

TEST_F(CheckHostTest, HoldersOfTheCountersAreNamed) {
  PutDriver();
  Put("/proc/12/comm", "nv-hostengine\n");
  Put("/proc/13/comm", "nvidia-cuda-mps\n");
  Put("/proc/14/comm", "bash\n");
  EXPECT_THAT(Checks(), Contains(HasSubstr("counters 2: DCGM may hold the counters of all GPUs "
                                           "(process 12) -> while you profile: dcgmi profile")));
  EXPECT_THAT(Checks(), Contains(HasSubstr("mps 2: MPS is on")));
}

TEST_F(CheckHostTest, PartsOfAGpuAreNamed) {
  PutDriver();
  Put("/proc/driver/nvidia/capabilities/gpu0/mig/gi7/access", "");
  Put("/proc/driver/nvidia/capabilities/gpu1/mig/none", "");
  EXPECT_THAT(Checks(), Contains(HasSubstr("mig 2: split by MIG: gpu0; ")));
}

TEST_F(CheckHostTest, AFreeRunningClockIsAWarning) {
  EXPECT_THAT(Checks({.clock_is_free = true}), Contains(HasSubstr("time 2: no time server")));
}

// A file without an end, as of a hung driver's, is read up to a bound.
TEST_F(CheckHostTest, OddFilesAreNoDriver) {
  Put("/proc/driver/nvidia/version", std::string(1 << 20, '1'));
  EXPECT_THAT(Checks(), Contains(HasSubstr("driver 1: no NVIDIA GPU")));
}

}  // namespace
}  // namespace tune::client
