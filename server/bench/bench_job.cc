// SPDX-License-Identifier: Apache-2.0
#include "server/bench/bench_job.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/measure/sweep_evaluator.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(50);
constexpr uint32_t kSamples = 100;
constexpr uint32_t kSamplesMax = 10'000;
constexpr double kSeconds = 10;
constexpr double kSecondsMax = 300;

absl::StatusOr<SamplePolicy> PolicyOf(const v1::SubmitBenchRequest& request) {
  if (request.samples() > kSamplesMax || !(request.seconds_max() >= 0) ||
      request.seconds_max() > kSecondsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", kSamplesMax, " samples in at most ", kSecondsMax, " seconds; ",
                     request.samples(), " in ", request.seconds_max(), " were asked for"));
  }
  const int samples = static_cast<int>(request.samples() == 0 ? kSamples : request.samples());
  return SamplePolicy{.cache_mode = FromProto(request.cache_mode()),
                      .samples_min = 1,
                      .samples_max = samples,
                      .seconds_max = request.seconds_max() == 0 ? kSeconds : request.seconds_max(),
                      .precision = 0};  // as many as were asked for
}

// What is known of this kernel and problem. The default is not passed off as the best.
absl::Status ChooseBest(const RecordBook& records, const Cancelled& cancelled, BenchCase& item) {
  const Workload& workload = item.workload;
  const DeviceStatus& device = workload.device.view.status;
  const std::string& name = workload.kernel().spec().name;
  absl::StatusOr<RecordAnswer> answer =
      records.Lookup(QueryFor(workload.kernel(), workload.problem, device.id), cancelled);
  const bool unknown = answer.ok() ? answer->record == nullptr : absl::IsNotFound(answer.status());
  if (unknown) {
    return absl::NotFoundError(absl::StrCat(
        "no config of ", name, " was tuned for a device like ", device.info.name,
        " yet, so none is known to be the best; run `tunectl sweep` first, or time the default "
        "with `tunectl bench --default`"));
  }
  RETURN_IF_ERROR(answer.status());
  item.config = std::move(answer->config);
  item.reason = std::move(answer->reason);
  return workload.kernel().CheckConfig(workload.problem, workload.traits(), item.config);
}

void Describe(const BenchCase& item, const std::string& device_id, const SweepEvaluator& evaluator,
              v1::BenchResult& response) {
  const Workload& workload = item.workload;
  *response.mutable_problem() = ToProto(workload.problem);
  response.set_kernel_name(workload.kernel().spec().name);
  response.set_kernel_hash(workload.kernel().hash());
  response.set_device_id(device_id);
  response.set_device_name(evaluator.device().name);
  response.set_target(evaluator.device().target);
  response.set_driver(evaluator.device().driver);
  response.set_compiler(evaluator.compiler_version());
  response.set_declared_bytes(workload.plan.work.bytes);
  response.set_declared_flops(workload.plan.work.flops);
  response.set_reason(item.reason);
}

// Errors are those of SubmitBench in bench.proto.
absl::StatusOr<BenchCase> CheckBench(const v1::SubmitBenchRequest& request, const BenchTools& tools,
                                     const Asker& asker) {
  BenchCase item{.seed = request.seed()};
  ASSIGN_OR_RETURN(item.policy, PolicyOf(request));
  if (request.best() && request.has_config()) {
    return absl::InvalidArgumentError("ask for the best config or for a given one, not for both");
  }
  ASSIGN_OR_RETURN(item.workload, ResolveWorkload(WorkloadOf(request), tools.catalogue,
                                                  tools.devices, asker.deadline, asker.cancelled));
  if (request.best()) {
    RETURN_IF_ERROR(ChooseBest(tools.records, asker.cancelled, item));
  } else {
    ASSIGN_OR_RETURN(item.config, CompleteConfig(item.workload, FromProto(request.config())));
  }
  return item;
}

}  // namespace

absl::StatusOr<Trial> MeasureOne(Evaluator& evaluator, const Config& config,
                                 const Cancelled& cancelled) {
  RETURN_IF_ERROR(evaluator.Start(config));
  while (!cancelled()) {
    ASSIGN_OR_RETURN(std::optional<Trial> trial, evaluator.Next(kPoll));
    if (trial) return *std::move(trial);
  }
  return absl::CancelledError("the measurement was cancelled");
}

JobKind BenchKind(const BenchTools& tools) {
  return MakeJobKind<v1::SubmitBenchRequest>(
      db::JobKind::kBench, "a bench",
      [tools](const v1::SubmitBenchRequest& request,
              const Asker& asker) -> absl::StatusOr<AskedJob> {
        ASSIGN_OR_RETURN(BenchCase item, CheckBench(request, tools, asker));
        AskedJob asked{.subject = item.workload.Subject(), .devices = item.workload.device.ids};
        asked.work = std::make_shared<BenchJob>(tools.workers, std::move(item));
        return asked;
      });
}

absl::Status BenchJob::Measure(JobContext& context) {
  ASSIGN_OR_RETURN(DeviceSupervisor * device, workers_.FindDevice(context.device_id()));
  // A process of its own for each job, and none left behind.
  const absl::Cleanup close = [device] { device->Close(); };
  ASSIGN_OR_RETURN(std::unique_ptr<SweepEvaluator> evaluator,
                   SweepEvaluator::Create(workers_, context.device_id(),
                                          {.kernel = case_.workload.named.kernel,
                                           .problem = case_.workload.problem,
                                           .seed = case_.seed,
                                           .policy = case_.policy,
                                           .cancelled = context.cancelled()}));
  ASSIGN_OR_RETURN(Trial trial, MeasureOne(*evaluator, case_.config, context.cancelled()));
  auto result = std::make_shared<v1::BenchResult>();
  *result->mutable_trial() = ToProto(trial, Samples::kInclude);
  Describe(case_, context.device_id(), *evaluator, *result);
  context.feed().AddResult(std::move(result));
  evaluator.reset();
  return absl::OkStatus();
}

}  // namespace tune::server
