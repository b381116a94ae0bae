// SPDX-License-Identifier: Apache-2.0
// Connections to a unix socket as another user makes them. Needs root.
#pragma once

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

namespace tune::server {

// Users and groups belong to a thread, as the kernel has it; the one that connects gives them up.
inline int ConnectAs(const std::string& path, uid_t user, gid_t group, gid_t other_group) {
  int fd = -1;
  std::thread([&] {
    const gid_t groups[] = {other_group};
    const bool gave_up = syscall(SYS_setgroups, 1, groups) == 0 &&
                         syscall(SYS_setresgid, group, group, group) == 0 &&
                         syscall(SYS_setresuid, user, user, user) == 0;
    ASSERT_TRUE(gave_up) << std::strerror(errno);
    sockaddr_un name{.sun_family = AF_UNIX};
    std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) return;
    close(fd);
    fd = -1;
  }).join();
  return fd;
}

// Null: the socket does not let that user connect.
inline std::shared_ptr<grpc::Channel> ChannelAs(const std::string& path, uid_t user, gid_t group,
                                                gid_t other_group) {
  const int fd = ConnectAs(path, user, group, other_group);
  return fd < 0 ? nullptr : grpc::CreateInsecureChannelFromFd("tunerd", fd);
}

}  // namespace tune::server
