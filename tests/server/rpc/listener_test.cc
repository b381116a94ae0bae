// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/address.h"
#include "tests/server/temp_dir.h"

namespace tune::server {
namespace {

// A socket that is bound to a path and, if asked, answers.
class BoundSocket {
 public:
  explicit BoundSocket(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un name{.sun_family = AF_UNIX};
    std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  }
  ~BoundSocket() { close(fd_); }
  void Listen() { EXPECT_EQ(listen(fd_, 1), 0); }

 private:
  const int fd_;
};

TEST(ListenerTest, SocketPaths) {
  EXPECT_EQ(SocketPath("unix:/run/x.sock"), "/run/x.sock");
  EXPECT_EQ(SocketPath("unix:///run/x.sock"), "/run/x.sock");
  EXPECT_EQ(SocketPath("unix:x.sock"), "x.sock");
  EXPECT_EQ(SocketPath("0.0.0.0:50051"), "");
}

TEST(ListenerTest, HostsHavePorts) {
  const auto text = [](const std::string& address) {
    const auto place = HostPortOf(address);
    return place.ok() ? place->host + " " + place->port : std::string(place.status().message());
  };
  EXPECT_EQ(text("localhost:7070"), "localhost 7070");
  EXPECT_EQ(text("0.0.0.0:0"), "0.0.0.0 0");
  EXPECT_EQ(text("[::1]:7070"), "::1 7070");
  EXPECT_EQ(text("dns:///tuner.example:7070"), "tuner.example 7070");
  EXPECT_EQ(text("ipv6:[::]:7070"), ":: 7070");
  for (const char* address : {"", "foo", "::1", "[::1]", "foo:", "foo:70000", "foo:x", ":7070",
                              "unix", "/run/tunerd.sock", "https://foo"}) {
    EXPECT_EQ(text(address),
              "'" + std::string(address) + "' is no address: unix:/path or host:port");
  }
  const absl::Status status = CheckTcp("localhost", {.certificate_file = "c", .key_file = "k"});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(ListenerTest, TcpNeedsTls) {
  const absl::Status status = CheckTcp("0.0.0.0:50051", {});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("--tls-cert"), std::string::npos) << status;
  EXPECT_TRUE(CheckTcp("0.0.0.0:50051", {.certificate_file = "c", .key_file = "k"}).ok());
}

TEST(ListenerTest, MakesAPrivateFolder) {
  TempDir dir;
  const std::string folder = dir.path() + "/a/b";
  ASSERT_TRUE(PrepareSocket(folder + "/d.sock").ok());
  struct stat state;
  ASSERT_EQ(stat(folder.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0700u);
}

TEST(ListenerTest, SocketOfALivingDaemonIsLeftAlone) {
  TempDir dir;
  const std::string path = dir.path() + "/d.sock";
  BoundSocket other(path);
  EXPECT_TRUE(PrepareSocket(path).ok()) << "nobody answers: left by a daemon that is gone";
  other.Listen();
  EXPECT_TRUE(absl::IsFailedPrecondition(PrepareSocket(path)));
}

TEST(ListenerTest, WhatIsNoSocketIsLeftAlone) {
  TempDir dir;
  const std::string path = dir.path() + "/d.sock";
  const std::string elsewhere = dir.path() + "/elsewhere.sock";
  BoundSocket other(elsewhere);
  const std::function<void()> makers[] = {
      [&] { std::ofstream(path) << "something dear"; }, [&] { mkfifo(path.c_str(), 0600); },
      [&] { std::filesystem::create_directory(path); },
      [&] { std::filesystem::create_symlink(elsewhere, path); },
      [&] { std::filesystem::create_symlink(dir.path() + "/nowhere", path); }};
  for (const auto& make : makers) {
    make();
    const absl::Status refused = PrepareSocket(path);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_NE(refused.message().find(path), std::string::npos) << refused;
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::symlink_status(path)));
    std::filesystem::remove(path);
  }
}

TEST(ListenerTest, SocketPathHasALimit) {
  EXPECT_TRUE(absl::IsInvalidArgument(PrepareSocket("/tmp/" + std::string(200, 'x'))));
  EXPECT_TRUE(absl::IsInvalidArgument(PrepareSocket("")));
}

TEST(ListenerTest, FolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  TempDir dir;
  ASSERT_EQ(chown(dir.path().c_str(), 12345, 12345), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(PrepareSocket(dir.path() + "/d.sock")));
}

}  // namespace
}  // namespace tune::server
