// SPDX-License-Identifier: Apache-2.0
// Missing walls keep a worker from being used. workers_test checks that the walls stand.
#include "server/supervision/wall_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/supervision/compile_pool.h"
#include "server/supervision/device_supervisor.h"
#include "tests/server/supervision/scripted.h"

namespace tune::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class WallBookTest : public testing::Test {
 protected:
  using Flags = std::vector<std::string>;
  absl::Status OpenDevice(WallBook& book, const Flags& flags) {
    DeviceSupervisorOptions options;
    options.id = "scripted";
    options.command = ScriptedCommand("device", dir_, flags);
    options.walls = &book;
    supervisor_ = std::make_unique<DeviceSupervisor>(options);
    return supervisor_->Open();
  }
  absl::Status StartCompiler(WallBook& book, const Flags& flags) {
    CompilePoolOptions options;
    options.command = ScriptedCommand("compile", dir_, flags);
    options.workers = 1;
    options.walls = &book;
    return CompilePool(options).Info(Language::kCuda).status();
  }

  const Flags kNone;
  const Flags kUp = {"--walls", "up"};
  TempDir dir_;
  std::unique_ptr<DeviceSupervisor> supervisor_;
};

TEST_F(WallBookTest, AProgramThatWasNotTriedIsNotPermitted) {
  const WallBook book(dir_ / "walls", false);
  EXPECT_FALSE(book.Knows("worker"));
  EXPECT_TRUE(absl::IsUnavailable(book.Permit("worker", "")));
}

TEST_F(WallBookTest, ADeviceWithoutAWallIsOutOfUseAndSaysWhatToDo) {
  WallBook book(dir_ / "walls", false);
  const absl::Status opened = OpenDevice(book, kNone);
  EXPECT_TRUE(absl::IsUnavailable(opened)) << opened;
  EXPECT_THAT(std::string(opened.message()),
              AllOf(HasSubstr("read the daemon's files"), HasSubstr("--allow-weak-walls")));
  EXPECT_EQ(supervisor_->Status().state, DeviceState::kUnavailable);
  EXPECT_THAT(supervisor_->Status().message, HasSubstr("walls"));
}

TEST_F(WallBookTest, ACompilerWithoutAWallCompilesNothing) {
  WallBook book(dir_ / "walls", false);
  EXPECT_TRUE(absl::IsUnavailable(StartCompiler(book, kNone)));
}

TEST_F(WallBookTest, TheOperatorMayAllowWeakOnes) {
  WallBook book(dir_ / "walls", true);
  EXPECT_TRUE(OpenDevice(book, kNone).ok());
  EXPECT_TRUE(StartCompiler(book, kNone).ok());
  ASSERT_EQ(book.All().size(), 1u);  // one program plays both
  EXPECT_THAT(MissingWalls(book.All()[0]), HasSubstr("files"));
}

TEST_F(WallBookTest, AWorkerThatDoesNotAnswerHasNone) {
  WallBook book(dir_ / "walls", false);
  auto worker = WorkerProcess::Start(ScriptedCommand("device", dir_, kUp)).value();
  worker->Kill();
  ASSERT_TRUE(book.Try("worker", *worker, {}).ok());
  EXPECT_TRUE(book.Knows("worker"));
  EXPECT_TRUE(absl::IsUnavailable(book.Permit("worker", "")));
}

TEST_F(WallBookTest, AWorkerWithItsWallsIsUsed) {
  WallBook book(dir_ / "walls", false);
  const absl::Status opened = OpenDevice(book, kUp);
  EXPECT_TRUE(opened.ok()) << opened;
  EXPECT_EQ(supervisor_->Status().state, DeviceState::kHealthy);
}

}  // namespace
}  // namespace tune::server
