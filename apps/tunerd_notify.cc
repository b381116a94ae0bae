// SPDX-License-Identifier: Apache-2.0
#include "apps/tunerd_notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "base/descriptor.h"

namespace tune {

void NotifySystemd(absl::string_view state) {
  const char* const variable = std::getenv("NOTIFY_SOCKET");
  const std::string path = variable == nullptr ? "" : variable;
  sockaddr_un address = {.sun_family = AF_UNIX};
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract socket
  const Descriptor socket_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket_fd.get() < 0) return;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  (void)!sendto(socket_fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                reinterpret_cast<const sockaddr*>(&address), bytes);
}

std::optional<absl::Duration> WatchdogPeriod() {
  const char* const variable = std::getenv("WATCHDOG_USEC");
  const char* const process = std::getenv("WATCHDOG_PID");
  int64_t microseconds = 0, pid = 0;
  if (variable == nullptr || !absl::SimpleAtoi(variable, &microseconds) || microseconds <= 0) {
    return std::nullopt;
  }
  if (process != nullptr && (!absl::SimpleAtoi(process, &pid) || pid != getpid())) {
    return std::nullopt;
  }
  return absl::Microseconds(microseconds / 2);
}

}  // namespace tune
