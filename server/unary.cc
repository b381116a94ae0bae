// SPDX-License-Identifier: Apache-2.0
#include "server/unary.h"

#include <algorithm>
#include <utility>

#include "server/convert.h"

namespace tune::server {

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* AnswerOn(Executor& executor, grpc::CallbackServerContext* context,
                                   std::function<absl::Status()> handle) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status queued =
      executor.Run([reactor, handle = std::move(handle)] { reactor->Finish(ToGrpc(handle())); });
  if (!queued.ok()) reactor->Finish(ToGrpc(queued));
  return reactor;
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context, absl::Duration cap) {
  return std::min(absl::FromChrono(context.deadline()), absl::Now() + cap);
}

}  // namespace tune::server
