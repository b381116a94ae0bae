// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/accept_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/contained.h"

namespace tune::server {
namespace {

constexpr absl::Duration kPauseWhenFull = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Start(std::vector<Descriptor> sockets,
                                                              Accept accept) {
  Descriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.ok()) return absl::UnavailableError(absl::StrCat("eventfd: ", std::strerror(errno)));
  return std::unique_ptr<AcceptLoop>(
      new AcceptLoop(std::move(sockets), std::move(stop), std::move(accept)));
}

AcceptLoop::AcceptLoop(std::vector<Descriptor> sockets, Descriptor stop, Accept accept)
    : sockets_(std::move(sockets)), stop_(std::move(stop)), accept_(std::move(accept)) {
  thread_ = std::thread([this] { Run(); });
}

AcceptLoop::~AcceptLoop() {
  const uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void AcceptLoop::Run() {
  std::vector<pollfd> ready = {{stop_.get(), POLLIN, 0}};
  for (const Descriptor& socket : sockets_) ready.push_back({socket.get(), POLLIN, 0});
  while (true) {
    if (poll(ready.data(), ready.size(), -1) < 0) {
      if (errno != EINTR) return;
      continue;
    }
    if (ready.front().revents != 0) return;
    bool full = false;
    for (const pollfd& socket : ready) {
      if (socket.revents == 0) continue;
      const absl::StatusOr<bool> accepted =
          Contained([&]() -> absl::StatusOr<bool> { return accept_(socket.fd); });
      if (!accepted.value_or(false)) full = true;
    }
    if (full) absl::SleepFor(kPauseWhenFull);
  }
}

}  // namespace tune::server
