// SPDX-License-Identifier: Apache-2.0
#include "server/bench/bench_service.h"

#include <memory>
#include <string>
#include <utility>

#include "base/contained.h"
#include "base/status_macros.h"
#include "server/bench/bench_job.h"
#include "server/rpc/later_call.h"
#include "server/rpc/unary.h"

namespace tune::server {
namespace {

constexpr absl::Duration kCheckCap = absl::Minutes(2);

}  // namespace

grpc::ServerUnaryReactor* BenchService::Measure(grpc::CallbackServerContext* context,
                                                const v1::MeasureRequest* request,
                                                v1::MeasureResponse* response) {
  const std::shared_ptr<LaterCall> call = LaterCall::Make();
  const absl::Time deadline = DeadlineOf(*context, kCheckCap);
  const auto begin = [=, this, owner = tools_.principals.Of(*context).name]() -> absl::Status {
    const Cancelled cancelled = [&] { return call->left() || tools_.executors.waiting.stopping(); };
    ASSIGN_OR_RETURN(BenchCase item,
                     CheckBench(*request, catalogue_, devices_, records_, deadline, cancelled));
    const db::JobRow row{
        .kind = db::JobKind::kBench, .owner = owner, .subject = item.workload.Subject()};
    const std::vector<std::string> devices = item.workload.device.ids;
    // The response lives until the call is finished.
    const auto answer = [call, response](const absl::Status& status,
                                         const v1::MeasureResponse& measured) {
      if (status.ok()) *response = measured;
      call->End(status);
    };
    ASSIGN_OR_RETURN(
        const std::shared_ptr<Job> job,
        tools_.scheduler.Submit(
            row, devices, std::make_shared<BenchJob>(store_, workers_, std::move(item), answer)));
    call->OnLeave([tools = tools_, id = job->id()] { CancelSoon(tools, id); });
    return absl::OkStatus();
  };
  const absl::Status queued = tools_.executors.waiting
                                  .Run([call, begin] {
                                    const absl::Status begun = Contained(begin);
                                    if (!begun.ok()) call->End(begun);
                                  })
                                  .status();
  if (!queued.ok()) call->End(queued);
  return call.get();
}

}  // namespace tune::server
