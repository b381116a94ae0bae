// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace tune::server {

// What an act returns in a process of a user whom modes of files and folders bind; 100 and more: it
// could not be run.
inline int AsSomebody(const std::function<int()>& act) {
  constexpr uid_t kNobody = 65534;
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(100);
    _exit(act());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

}  // namespace tune::server
