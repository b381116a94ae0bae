// SPDX-License-Identifier: Apache-2.0
// The main loop of a worker process: answers requests until the daemon is gone, then exits.
#pragma once

#include <functional>

#include "tune/worker/v1/worker.pb.h"

namespace tune::server {

// The worker's end of the socketpair, by agreement with WorkerProcess.
inline constexpr int kWorkerFd = 3;
// The entry of the worker's control group, if it has one; see control_groups.h.
inline constexpr int kControlGroupFd = 4;

// Joins the control group that the daemon made for this process, if any. Call it before this
// process starts others. False if it could not be joined; the reason is on stderr then.
bool JoinControlGroup();

using RequestHandler = std::function<worker::v1::WorkerReply(const worker::v1::WorkerRequest&)>;

// Kills this process and its children as soon as the daemon's end of `fd` closes, also in the
// middle of a request. Call once, before ServeRequests.
void ExitWhenDaemonCloses(int fd);

// Answers every request on `fd`, one at a time. Returns the process's exit code: 0 when the daemon
// closed, 1 when it broke the protocol.
int ServeRequests(int fd, const RequestHandler& handle);

}  // namespace tune::server
