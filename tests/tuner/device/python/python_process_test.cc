// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/python/python_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace tune::python {
namespace {

constexpr char kPython[] = "/usr/bin/python3";
constexpr std::chrono::seconds kPatience(60);

// Replies with its own process id and its parent's. A request may have its child killed when that
// has read the request and not confirmed it yet, as often as a file of the folder has bytes.
constexpr char kScript[] = R"python(
FOLDER = sys.argv[5]
DEATHS = FOLDER + ".deaths"
confirm = write_frame


def write_frame(fd, payload):
    left = os.path.getsize(DEATHS) if os.path.exists(DEATHS) else 0
    if len(payload) == 32 and left > 0:  # a nonce
        os.truncate(DEATHS, left - 1)
        os.kill(os.getpid(), 9)
    confirm(fd, payload)


def handle(request, folder, library):
    length = len(request.get("padding", ""))
    return {"pid": os.getpid(), "parent": os.getppid(), "length": length}, b""


pipes = tuple(map(int, sys.argv[2:5]))
announce({"outcome": "ok"}, pipes)
serve(handle, pipes, FOLDER, None, per_child=64)
)python";

class PythonProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kPython)) GTEST_SKIP() << "this host has no " << kPython;
    signal(SIGPIPE, SIG_IGN);  // as in a worker
    std::string name = testing::TempDir() + "/python_process_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    process_ = PythonProcess::Start(kPython, kScript, "test", dir_ + "/call", true).value();
  }
  void TearDown() override {
    process_.reset();
    if (!dir_.empty()) std::filesystem::remove_all(dir_);
  }

  // Kills as many children as there are bytes in the file, once each has read a request.
  void KillReaders(int count) {
    FILE* const file = fopen((dir_ + "/call.deaths").c_str(), "w");
    fputs(std::string(static_cast<size_t>(count), 'x').c_str(), file);
    fclose(file);
  }
  // Ends the test program if there is no answer in time: the wait cannot be ended otherwise.
  absl::StatusOr<PythonReply> Ask(const nlohmann::json& request = nlohmann::json::object()) {
    auto asked = std::async(std::launch::async, [&] { return process_->Ask(request); });
    if (asked.wait_for(kPatience) != std::future_status::ready) {
      fprintf(stderr, "the request was lost\n");
      _exit(1);
    }
    return asked.get();
  }
  static pid_t IdIn(const PythonReply& reply, const char* key) {
    return reply.about.at(key).get<pid_t>();
  }

  std::string dir_;
  std::unique_ptr<PythonProcess> process_;
};

TEST_F(PythonProcessTest, AChildServesOneRequestAfterTheOther) {
  const PythonReply first = Ask().value();
  EXPECT_EQ(IdIn(Ask().value(), "pid"), IdIn(first, "pid"));
}

TEST_F(PythonProcessTest, ARequestIsAnsweredIfTheIdleChildWasKilledBeforeIt) {
  for (int i = 0; i < 20; ++i) {
    const PythonReply reply = Ask().value();
    ASSERT_EQ(kill(IdIn(reply, "pid"), SIGKILL), 0);
    EXPECT_NE(IdIn(Ask({{"padding", std::string(200'000, 'x')}}).value(), "pid"),
              IdIn(reply, "pid"));
  }
}

TEST_F(PythonProcessTest, ARequestThatAKilledChildHasReadIsAskedAgain) {
  const PythonReply before = Ask().value();
  KillReaders(1);
  const absl::StatusOr<PythonReply> reply = Ask();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_NE(IdIn(*reply, "parent"), IdIn(before, "parent")) << "of a fresh process";
}

TEST_F(PythonProcessTest, ALargeRequestWhoseReaderIsKilledIsAskedAgain) {
  const std::string padding(8 << 20, 'x');  // more than a pipe holds
  (void)Ask().value();
  KillReaders(1);
  const absl::StatusOr<PythonReply> reply = Ask({{"padding", padding}});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->about.at("length").get<size_t>(), padding.size());
}

TEST_F(PythonProcessTest, ARequestIsAnsweredIfTheWholeProcessWasKilledBeforeIt) {
  const PythonReply before = Ask().value();
  ASSERT_EQ(kill(IdIn(before, "parent"), SIGKILL), 0);
  ASSERT_EQ(kill(IdIn(before, "pid"), SIGKILL), 0);
  EXPECT_NE(IdIn(Ask().value(), "parent"), IdIn(before, "parent"));
}

TEST_F(PythonProcessTest, ARequestThatEveryReaderDiesOfIsUnavailable) {
  KillReaders(1000);
  EXPECT_EQ(Ask().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tune::python
