// SPDX-License-Identifier: Apache-2.0
// Whose socket a client talks to.
#include "client/connect/daemon_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/connection.h"
#include "gmock/gmock.h"

namespace tune::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uid_t kSomebodyElse = 12345;
const std::string kSettings("\0\0\0\4\0\0\0\0\0", 9);  // as HTTP/2 begins

class DaemonSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("TUNE_DAEMON_USER");
    folder_ = fs::path(testing::TempDir()) /
              absl::StrCat("socket-", getpid(), "-",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    fs::permissions(folder_, fs::perms::all);
    path_ = (folder_ / "d.sock").string();
  }
  void TearDown() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    fs::remove_all(folder_);
  }
  // A process of that user which listens and says this to each client.
  void Listen(uid_t uid, const std::string& greeting) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      signal(SIGPIPE, SIG_IGN);  // a client that refuses it leaves without reading
      sockaddr_un name{.sun_family = AF_UNIX};
      std::strncpy(name.sun_path, path_.c_str(), sizeof(name.sun_path) - 1);
      const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
      if (setuid(uid) != 0 || bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0 ||
          listen(fd, 8) != 0) {
        _exit(1);
      }
      (void)!write(ready[1], "x", 1);
      for (int i = 0; i < 100; ++i) {
        const int client = accept(fd, nullptr, nullptr);
        (void)!write(client, greeting.data(), greeting.size());
      }
      _exit(0);
    }
    close(ready[1]);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  absl::Status Connect(const SocketOptions& options = {}) {
    return ConnectToDaemon(path_, options).status();
  }

  fs::path folder_;
  std::string path_;
  pid_t child_ = -1;
};

TEST_F(DaemonSocketTest, OurOwnAndRootsAreTrusted) {
  Listen(geteuid(), kSettings);
  EXPECT_TRUE(Connect().ok()) << Connect();
}

TEST_F(DaemonSocketTest, SomebodyElsesIsRefusedUnlessItIsAllowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  Listen(kSomebodyElse, kSettings);
  const absl::Status refused = Connect();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("runs as user 12345"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--daemon-user"));
  EXPECT_TRUE(absl::IsPermissionDenied(Connect({.daemon_user = "1"})));
  EXPECT_TRUE(Connect({.daemon_user = "12345"}).ok());
  setenv("TUNE_DAEMON_USER", "12345", 1);
  EXPECT_TRUE(Connect().ok());
  unsetenv("TUNE_DAEMON_USER");

  // tunectl sends it nothing, and does not take its own server instead.
  const auto connection = Connection::Open("unix:" + path_, {}, "", [] {
    return absl::StatusOr<std::unique_ptr<EmbeddedServer>>(absl::InternalError("embedded"));
  });
  EXPECT_TRUE(absl::IsPermissionDenied(connection.status())) << connection.status();
}

TEST_F(DaemonSocketTest, NoDaemonIsUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(Connect())) << "no socket";
  Listen(geteuid(), "");
  EXPECT_TRUE(absl::IsUnavailable(Connect({.timeout = std::chrono::milliseconds(50)})))
      << "it says nothing";
}

TEST_F(DaemonSocketTest, WhoMayNotConnectIsToldSo) {
  if (geteuid() == 0) GTEST_SKIP() << "root may";
  Listen(geteuid(), kSettings);
  fs::permissions(path_, fs::perms::none);
  const absl::Status status = Connect();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("you may not connect"));
}

TEST_F(DaemonSocketTest, WhatIsNoDaemonIsUnavailable) {
  Listen(geteuid(), "220 a server of mail\r\n");
  const absl::Status status = Connect();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the process there is not tunerd"));
}

TEST_F(DaemonSocketTest, WrongNamesAreInvalid) {
  EXPECT_TRUE(absl::IsInvalidArgument(Connect({.daemon_user = "no such user"})));
  EXPECT_TRUE(absl::IsInvalidArgument(ConnectToDaemon(std::string(200, 'x'), {}).status()));
}

}  // namespace
}  // namespace tune::client
