// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/background.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "absl/status/status.h"

namespace tune::library {
namespace {

// Blocks all signals of this thread, and of threads that it starts, for its life.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

// A body catches what it can go on after. What is left ends it, and not the job.
void RunQuietly(const std::function<void(const Background&)>& body,
                const Background& background) noexcept {
  try {
    body(background);
  } catch (const std::exception&) {
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Background>> Background::Start(
    std::function<void(const Background&)> body) {
  Descriptor end(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!end.ok()) return absl::ResourceExhaustedError(std::strerror(errno));
  std::unique_ptr<Background> started(new Background(std::move(end)));
  const BlockedSignals blocked;
  try {  // the library tells in no other way that there can be no more
    started->thread_ = std::thread(
        [background = started.get(), body = std::move(body)] { RunQuietly(body, *background); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(error.what());
  }
  return started;
}

bool HasEnded(int end_fd) {
  pollfd end = {end_fd, POLLIN, 0};  // one that is negative is passed over
  return poll(&end, 1, 0) > 0;
}

Background::~Background() {
  if (!thread_.joinable()) return;
  eventfd_write(end_.get(), 1);
  thread_.join();
}

bool Background::EndsWithin(std::chrono::milliseconds time) const {
  const auto until = std::chrono::steady_clock::now() + time;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd end = {end_.get(), POLLIN, 0};
    const int ready = poll(&end, 1, static_cast<int>(std::min<int64_t>(left.count(), 1 << 30)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;
  }
}

}  // namespace tune::library
