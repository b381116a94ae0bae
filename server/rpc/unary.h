// SPDX-License-Identifier: Apache-2.0
// Unary calls: answered at once, or on an executor thread when answering may block.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "grpc/support/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/executor.h"

namespace tune::server {

// Finishes the call with the result of `handle`, which must fill in the response before it returns.
//
// A call whose client has left, or whose deadline has passed, is removed from the executor's queue.
// If it already runs, `cancelled` returns true, as it does when the daemon stops. `cap` is the
// longest that a call may take, whatever its deadline.
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status);
grpc::ServerUnaryReactor* AnswerOn(Executor& executor, grpc::CallbackServerContext* context,
                                   std::function<absl::Status()> handle);
grpc::ServerUnaryReactor* AnswerOn(Executor& executor, grpc::CallbackServerContext* context,
                                   absl::Duration cap,
                                   std::function<absl::Status(const Cancelled& cancelled)> handle);

// The call's deadline as a time of SteadyNow, but no later than `cap` from now.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context, absl::Duration cap);
// The time left until a deadline of gRPC, by the monotonic clock. It cannot be compared with
// absl::Now(), which notices up to two seconds late that the clock was set.
absl::Duration TimeLeft(gpr_timespec deadline);

}  // namespace tune::server
