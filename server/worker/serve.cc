// SPDX-License-Identifier: Apache-2.0
#include "server/worker/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/descriptor.h"
#include "server/worker/convert.h"
#include "server/worker/frame.h"

namespace tune::server {
namespace {

// Waits for a whole frame.
absl::StatusOr<std::string> ReadFrame(int fd) {
  FrameReader reader(kRequestFrameBytesMax);
  while (true) {
    absl::StatusOr<bool> whole = reader.ReadFrom(fd);
    if (!whole.ok()) return whole.status();
    if (*whole) return reader.payload();
  }
}

}  // namespace

bool JoinControlGroup() {
  if (fcntl(kControlGroupFd, F_GETFD) < 0) return true;
  const Descriptor entry(kControlGroupFd);
  if (write(entry.get(), "0", 1) == 1) return true;  // itself
  fprintf(stderr, "the control group cannot be joined: %s\n", strerror(errno));
  return false;
}

void ExitWhenDaemonCloses(int fd) {
  // A thread, because PR_SET_PDEATHSIG fires when the *thread* that spawned us ends.
  std::thread([fd] {
    pollfd watched = {fd, POLLRDHUP, 0};
    while (true) {
      const int ready = poll(&watched, 1, -1);
      if (ready < 0 && errno == EINTR) continue;
      // A worker leads its own process group, so this takes a running compiler driver along.
      if (getpgrp() == getpid()) kill(0, SIGKILL);
      _exit(0);
    }
  }).detach();
}

int ServeRequests(int fd, const RequestHandler& handle) {
  while (true) {
    absl::StatusOr<std::string> payload = ReadFrame(fd);
    if (absl::IsOutOfRange(payload.status())) return 0;
    worker::v1::WorkerRequest request;
    if (!payload.ok() || !request.ParseFromString(*payload)) {
      fprintf(stderr, "the daemon sent what is not a request\n");
      return 1;
    }
    worker::v1::WorkerReply reply = handle(request);
    reply.set_nonce(request.nonce());
    absl::StatusOr<std::string> frame = EncodeFrame(reply);
    if (!frame.ok()) {
      reply.Clear();
      SetStatus(frame.status(), reply);
      reply.set_nonce(request.nonce());
      frame = EncodeFrame(reply);
    }
    if (!frame.ok() || !WriteAll(fd, *frame).ok()) return 0;
  }
}

}  // namespace tune::server
