// SPDX-License-Identifier: Apache-2.0
#include "server/bench/bench_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/rpc/unary.h"
#include "server/sweep/submission.h"
#include "server/wire/nouns.h"
#include "tuner/kernel/kernel.h"
#include "tuner/status_macros.h"
#include "tuner/steady_time.h"

namespace tune::server {
namespace {

constexpr absl::Duration kMeasureCap = absl::Hours(1);  // waiting for the device included
constexpr absl::Duration kPoll = absl::Milliseconds(50);
constexpr uint32_t kSamples = 100;
constexpr uint32_t kSamplesMax = 10'000;
constexpr double kSeconds = 10;
constexpr double kSecondsMax = 300;

// What is to be measured, checked.
struct Case {
  std::shared_ptr<const Kernel> kernel;
  db::SweepRow where;  // problem and device
  Config config;
  std::string reason;
  SamplePolicy policy;
};

absl::StatusOr<SamplePolicy> PolicyOf(const v1::MeasureRequest& request) {
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

// `partial` over the defaults.
absl::StatusOr<Config> Complete(const Config& partial, Config config) {
  for (const auto& [param, value] : partial.entries) {
    const auto entry = std::find_if(config.entries.begin(), config.entries.end(),
                                    [&](const auto& known) { return known.first == param; });
    if (entry == config.entries.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the kernel has no parameter '", param, "'; it has: ",
          absl::StrJoin(config.entries, ", ",
                        [](std::string* out, const auto& known) { out->append(known.first); })));
    }
    entry->second = value;
  }
  return config;
}

// What is known of this kernel and problem. The default is not passed off as the best.
absl::Status ChooseBest(const RecordBook& records, const Cancelled& cancelled, Case& item) {
  RecordQuery query{.kernel_name = item.where.kernel_name,
                    .dtype = ToText(item.where.problem.dtype),
                    .device = item.where.device_id,
                    .kernel_hash = item.where.kernel_hash};
  for (const auto& [name, value] : item.where.problem.dims) query.dims[name] = value;
  absl::StatusOr<RecordAnswer> answer = records.Lookup(query, cancelled);
  const bool unknown = answer.ok() ? answer->record == nullptr : absl::IsNotFound(answer.status());
  if (unknown) {
    return absl::NotFoundError(absl::StrCat(
        "no config of ", item.where.kernel_name, " was tuned for a device like ",
        item.where.device_name, " yet, so none is known to be the best; run `tunectl sweep` first, "
        "or time the default with `tunectl bench --default`"));
  }
  RETURN_IF_ERROR(answer.status());
  item.config = std::move(answer->config);
  item.reason = std::move(answer->reason);
  return absl::OkStatus();
}

absl::StatusOr<Case> CheckCase(const v1::MeasureRequest& request, const Catalogue& catalogue,
                               const Devices& devices, const RecordBook& records,
                               absl::Time deadline, const Cancelled& cancelled) {
  Case result;
  ASSIGN_OR_RETURN(result.policy, PolicyOf(request));
  v1::SubmitSweepRequest sweep;  // the same checks: kernel, dims, device
  if (request.has_kernel_source()) {
    *sweep.mutable_kernel_source() = request.kernel_source();
  } else {
    sweep.set_kernel_name(request.kernel_name());
  }
  *sweep.mutable_dims() = request.dims();
  sweep.set_dtype(request.dtype());
  sweep.set_device(request.device());
  ASSIGN_OR_RETURN(Submission submission, CheckProblem(sweep, catalogue, devices, deadline));
  result.where = std::move(submission.sweep);
  result.kernel = submission.parsed;
  if (request.best() && request.has_config()) {
    return absl::InvalidArgumentError("ask for the best config or for a given one, not for both");
  }
  if (request.best()) {
    RETURN_IF_ERROR(ChooseBest(records, cancelled, result));
  } else {
    // Alone the default has to be valid; else it only fills up what was given.
    const bool alone = request.config().entries().empty();
    ASSIGN_OR_RETURN(Config defaults,
                     alone ? result.kernel->DefaultConfig(result.where.problem, submission.traits)
                           : result.kernel->Defaults(result.where.problem, submission.traits));
    ASSIGN_OR_RETURN(result.config, Complete(FromProto(request.config()), std::move(defaults)));
  }
  RETURN_IF_ERROR(
      result.kernel->CheckConfig(result.where.problem, submission.traits, result.config));
  return result;
}

// One trial of one config; CANCELLED once `cancelled` says so.
absl::StatusOr<Trial> MeasureOne(WorkerEvaluator& evaluator, const Config& config,
                                 const Cancelled& cancelled) {
  RETURN_IF_ERROR(evaluator.Start(config));
  while (!cancelled()) {
    ASSIGN_OR_RETURN(std::optional<Trial> trial, evaluator.Next(kPoll));
    if (trial) return *std::move(trial);
  }
  return absl::CancelledError("the measurement was cancelled");
}

void Describe(const Case& item, const WorkerEvaluator& evaluator, const WorkPlan& work,
              v1::MeasureResponse& response) {
  *response.mutable_problem() = ToProto(item.where.problem);
  response.set_kernel_name(item.where.kernel_name);
  response.set_kernel_hash(item.where.kernel_hash);
  response.set_device_id(item.where.device_id);
  response.set_device_name(item.where.device_name);
  response.set_target(item.where.target);
  response.set_driver(evaluator.device().driver);
  response.set_compiler(evaluator.compiler_version());
  response.set_declared_bytes(work.bytes);
  response.set_declared_flops(work.flops);
  response.set_reason(item.reason);
}

}  // namespace

grpc::ServerUnaryReactor* BenchService::Measure(grpc::CallbackServerContext* context,
                                                const v1::MeasureRequest* request,
                                                v1::MeasureResponse* response) {
  const absl::Time deadline = DeadlineOf(*context, kMeasureCap);
  const auto measure = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(Case item,
                     CheckCase(*request, catalogue_, devices_, records_, deadline, cancelled));
    ASSIGN_OR_RETURN(DeviceTurns::Turn turn,
                     devices_.turns().Take(item.where.device_id, "a bench", cancelled));
    ASSIGN_OR_RETURN(DeviceSupervisor * lease, workers_.FindDevice(item.where.device_id));
    devices_.RestoreCeilings(*lease);
    // A process of its own for each call, and none left behind.
    const absl::Cleanup close = [lease] { lease->Close(); };
    ASSIGN_OR_RETURN(auto evaluator,
                     workers_.MakeEvaluator(item.where.device_id, {.kernel = item.kernel,
                                                                   .problem = item.where.problem,
                                                                   .seed = request->seed(),
                                                                   .policy = item.policy,
                                                                   .cancelled = cancelled}));
    ASSIGN_OR_RETURN(ProblemPlan plan,
                     item.kernel->PlanProblem(item.where.problem, evaluator->traits()));
    ASSIGN_OR_RETURN(Trial trial, MeasureOne(*evaluator, item.config, cancelled));
    *response->mutable_trial() = ToProto(trial, Samples::kInclude);
    Describe(item, *evaluator, plan.work, *response);
    evaluator.reset();
    return absl::OkStatus();
  };
  return AnswerOn(executor_, context, kMeasureCap, measure);
}

void BenchService::Stop() { executor_.Stop(); }

}  // namespace tune::server
