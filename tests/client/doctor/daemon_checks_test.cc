// SPDX-License-Identifier: Apache-2.0
#include "client/doctor/daemon_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tune::client {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kNow = 1'800'000'000'000;
constexpr int64_t kDayMs = 24LL * 3600 * 1000;

v1::ServerStatus SoundServer() {
  v1::ServerStatus server;
  server.set_version("1.2.0");
  server.set_pid(17);
  server.set_state_dir("/var/lib/tunectl");
  server.mutable_traffic()->set_state_free_bytes(uint64_t{100} << 30);
  server.mutable_traffic()->set_open_files(30);
  server.mutable_traffic()->set_open_files_max(1024);
  return server;
}

std::vector<std::string> Lines(const v1::Diagnosis& diagnosis) {
  std::vector<std::string> lines;
  for (const v1::DoctorCheck& check : diagnosis.checks()) {
    lines.push_back(absl::StrCat(check.name(), " ", static_cast<int>(check.verdict()), ": ",
                                 check.finding(), " -> ", check.advice()));
  }
  return lines;
}

std::vector<std::string> Checks(const v1::ServerStatus& server) {
  v1::Diagnosis diagnosis;
  CheckServer(server, "1.2.0", kNow, diagnosis);
  return Lines(diagnosis);
}

TEST(CheckServerTest, ASoundServerHasNoAdvice) {
  EXPECT_THAT(Checks(SoundServer()), Each(HasSubstr(" 1: ")));
}

TEST(CheckServerTest, AnotherVersionOfTheDaemonIsAWarning) {
  v1::ServerStatus server = SoundServer();
  server.set_version("1.1.0");
  EXPECT_THAT(Checks(server), Contains(HasSubstr("daemon 2: tunerd 1.1.0")));
}

TEST(CheckServerTest, ADiskWithoutRoomForACompileFails) {
  v1::ServerStatus server = SoundServer();
  server.mutable_traffic()->set_state_free_bytes(uint64_t{2} << 30);
  EXPECT_THAT(Checks(server), Contains(HasSubstr("disk 2: 2.0 GiB free for /var/lib/tunectl")));
  server.mutable_traffic()->set_state_free_bytes(uint64_t{1} << 29);
  EXPECT_THAT(Checks(server), Contains(HasSubstr("disk 3: ")));
}

TEST(CheckServerTest, UnreadableRowsAndUnstoredRevocationsFail) {
  v1::ServerStatus server = SoundServer();
  server.add_unreadable_rows("trials 4: not UTF-8");
  server.set_unstored_revocation_count(1);
  EXPECT_THAT(Checks(server), Contains(HasSubstr("store 3: cannot be read: trials 4")));
  EXPECT_THAT(Checks(server), Contains(HasSubstr("store 3: 1 revoked token would be valid")));
}

TEST(CheckServerTest, ACertificateWarnsBeforeItEnds) {
  v1::ServerStatus server = SoundServer();
  v1::TlsCertificate& certificate = *server.mutable_certificate();
  certificate.set_file("/etc/tunerd/daemon.pem");
  certificate.set_expires_unix_ms(kNow + 90 * kDayMs);
  EXPECT_THAT(Checks(server), Contains(HasSubstr("certificate 1: ")));
  certificate.set_expires_unix_ms(kNow + 5 * kDayMs);
  EXPECT_THAT(Checks(server), Contains(HasSubstr("certificate 2: ")));
  certificate.set_expires_unix_ms(kNow - kDayMs);
  EXPECT_THAT(Checks(server), Contains(HasSubstr("certificate 3: ")));
}

TEST(CheckServerTest, FewDescriptorsLeftIsAWarning) {
  v1::ServerStatus server = SoundServer();
  server.mutable_traffic()->set_open_files(1000);
  EXPECT_THAT(Checks(server), Contains(HasSubstr("files 2: 1000 files are open of at most 1024")));
}

TEST(CheckWallsTest, AMissingWallFailsUnlessTheOperatorAllowsIt) {
  v1::ServerStatus server;
  v1::ListDevicesResponse devices;
  v1::WorkerWalls& walls = *devices.add_devices()->add_walls();
  walls.set_worker("tune-device-cpu");
  v1::Wall& wall = *walls.add_walls();
  wall.set_name("files");
  wall.set_note("it could read the daemon's files");
  wall.set_state(v1::WALL_STATE_MISSING);
  v1::Diagnosis strict, weak;
  CheckWalls(server, devices, strict);
  EXPECT_THAT(Lines(strict), Contains(HasSubstr("walls 3: tune-device-cpu: missing files: it")));
  server.set_weak_walls_allowed(true);
  CheckWalls(server, devices, weak);
  EXPECT_THAT(Lines(weak), Contains(HasSubstr("walls 2: ")));
}

TEST(CheckDevicesTest, StatesClocksAndCeilingsAreChecked) {
  v1::ListDevicesResponse devices;
  v1::Device& device = *devices.add_devices();
  device.set_id("gpu0");
  device.set_state(v1::DEVICE_STATE_QUARANTINED);
  device.set_message("its canary failed");
  device.set_clock_note("CUPTI is missing");
  for (const char* name : {"dram", "l2"}) {
    v1::Ceiling& ceiling = *device.add_ceilings();
    ceiling.set_name(name);
    ceiling.set_stale(true);
    ceiling.set_stale_reason("another driver");
  }
  v1::DeviceCompiler& compiler = *device.add_compilers();
  compiler.set_language("Triton");
  compiler.set_message("pip install triton");
  v1::Diagnosis diagnosis;
  CheckDevices(devices, diagnosis);
  EXPECT_THAT(
      Lines(diagnosis),
      testing::ElementsAre(
          HasSubstr("device 3: gpu0 quarantined: its canary failed -> mend it, then tunectl "
                    "device retry gpu0"),
          HasSubstr("clock 2: gpu0: CUPTI is missing"),
          HasSubstr("ceilings 2: gpu0: dram is stale: another driver -> tunectl device "
                    "ceilings gpu0"),
          HasSubstr("compiler 2: none for Triton -> pip install triton")));
}

TEST(CheckDevicesTest, NoDevicesAreNoChecks) {
  v1::Diagnosis diagnosis;
  CheckDevices({}, diagnosis);
  EXPECT_THAT(Lines(diagnosis), IsEmpty());
}

}  // namespace
}  // namespace tune::client
