// SPDX-License-Identifier: Apache-2.0
#include "server/replay/replay_service.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/replay/recording_source.h"
#include "server/replay/spec_skeleton.h"
#include "server/replay/study.h"
#include "server/rpc/grpc_status.h"
#include "server/wire/nouns.h"
#include "tuner/device/replay/comparison.h"
#include "tuner/device/replay/formats.h"
#include "tuner/device/replay/play.h"
#include "tuner/device/replay/score.h"
#include "tuner/strategies/strategy.h"

namespace tune::server {
namespace {

constexpr uint32_t kInFlightMax = 1024;
constexpr uint32_t kSeedsMax = 10'000;
constexpr uint32_t kBudgetMax = 100'000;

absl::StatusOr<uint32_t> InFlight(uint32_t asked) {
  if (asked <= kInFlightMax) return std::max<uint32_t>(asked, 1);
  return absl::InvalidArgumentError(
      absl::StrCat("in flight: ", asked, "; there may be 1 to ", kInFlightMax));
}

absl::Status Convert(const v1::ConvertRecordingRequest& request,
                     v1::ConvertRecordingResponse& response) {
  ASSIGN_OR_RETURN(const replay::Recording recording, ReadSource(request.recording()));
  *response.mutable_info() = Describe(recording);
  if (request.format() == "spec") {
    v1::RecordingFile& file = *response.add_files();
    file.set_name(request.stem() + ".textproto");
    file.set_content(SpecSkeleton(recording));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const replay::RecordingFormat format, replay::ParseFormat(request.format()));
  for (replay::RecordingFile& file : replay::WriteRecording(recording, format, request.stem())) {
    v1::RecordingFile& added = *response.add_files();
    added.set_name(file.name);
    added.set_content(std::move(file.content));
  }
  return absl::OkStatus();
}

absl::StatusOr<SweepBudget> BudgetOf(const v1::ReplayRequest& request) {
  const v1::StopRules& stop = request.stop();
  if (!(stop.improvement_chance_min() >= 0 && stop.improvement_chance_min() <= 1)) {
    return absl::InvalidArgumentError("a chance of improvement is 0 to 1");
  }
  SweepBudget budget{.trials = request.budget().trials(),
                     .trials_without_improvement = stop.trials_without_improvement(),
                     .improvement_chance_min = stop.improvement_chance_min()};
  if (request.budget().seconds() > 0) budget.time = absl::Seconds(request.budget().seconds());
  return budget;
}

absl::Status PlayOne(const v1::ReplayRequest& request, v1::ReplayResponse& response) {
  ASSIGN_OR_RETURN(const replay::RecordedSpace space, ReadSpace(request.recording()));
  ASSIGN_OR_RETURN(const PriorRecordings prior, PriorRecordings::Read(request.prior()));
  replay::PlayOptions options{.strategy = request.strategy(),
                              .seed = request.seed(),
                              .prior = prior.For(space.recording())};
  ASSIGN_OR_RETURN(options.budget, BudgetOf(request));
  ASSIGN_OR_RETURN(options.in_flight, InFlight(request.in_flight()));
  ASSIGN_OR_RETURN(const replay::Played played, replay::Play(space, options));

  *response.mutable_recording() = Describe(space.recording());
  response.set_strategy(request.strategy().empty() ? std::string(kDefaultStrategy)
                                                   : request.strategy());
  response.set_seed(request.seed());
  response.set_in_flight(options.in_flight);
  response.set_evaluations(played.summary.done);
  for (const auto& [outcome, count] : played.summary.outcomes) {
    (*response.mutable_outcomes())[ToText(outcome)] = count;
  }
  if (played.summary.best) {
    *response.mutable_best() = ToProto(*played.summary.best);
    response.set_optimum_ratio(played.summary.best->measurement.latency_ns_median /
                               space.optimum_ns());
  }
  response.set_end(static_cast<v1::SweepEnd>(played.summary.end));
  response.set_end_message(ToText(played.summary.end));
  response.set_recorded_seconds(played.recorded_seconds);
  std::vector<double> overhead_us = played.overhead_us;
  std::sort(overhead_us.begin(), overhead_us.end());
  if (!overhead_us.empty()) {
    response.set_overhead_us_median(replay::QuantileOf(overhead_us, 0.5));
  }
  response.mutable_best_latency_ns()->Add(played.best_ns.begin(), played.best_ns.end());
  for (const std::string& name : prior.Names()) response.add_prior_sources(name);
  return absl::OkStatus();
}

absl::StatusOr<StudyPlan> PlanOf(const v1::CompareStrategiesRequest& request) {
  StudyPlan plan{
      .seeds = request.seeds(), .budget_trials = request.budget_trials(), .score = request.score()};
  if (request.recordings().empty()) {
    return absl::InvalidArgumentError("no recording to compare strategies on");
  }
  if (plan.seeds == 0 || plan.seeds > kSeedsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan.seeds, " seeds; there may be 1 to ", kSeedsMax));
  }
  if (plan.budget_trials == 0 || plan.budget_trials > kBudgetMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a budget of ", plan.budget_trials, " trials; it may be 1 to ", kBudgetMax));
  }
  ASSIGN_OR_RETURN(plan.in_flight, InFlight(request.in_flight()));
  const std::vector<std::string> known = StrategyNames();
  plan.strategies.assign(request.strategies().begin(), request.strategies().end());
  if (plan.strategies.empty()) plan.strategies = known;
  for (const std::string& name : plan.strategies) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown strategy '", name, "'; there are ", absl::StrJoin(known, ", ")));
    }
  }
  for (const v1::RecordingSource& source : request.recordings()) {
    ASSIGN_OR_RETURN(replay::RecordedSpace space, ReadSpace(source));
    plan.spaces.push_back(std::move(space));
  }
  ASSIGN_OR_RETURN(plan.prior, PriorRecordings::Read(request.prior()));
  return plan;
}

}  // namespace

grpc::Status ReplayService::ListStrategies(grpc::ServerContext*, const v1::ListStrategiesRequest*,
                                           v1::ListStrategiesResponse* response) {
  for (const std::string& name : StrategyNames()) {
    v1::StrategyInfo& info = *response->add_strategies();
    info.set_name(name);
    info.set_summary(StrategySummary(name));
    info.set_is_default(name == kDefaultStrategy);
  }
  return grpc::Status::OK;
}

grpc::Status ReplayService::DescribeRecording(grpc::ServerContext*,
                                              const v1::DescribeRecordingRequest* request,
                                              v1::RecordingInfo* response) {
  const absl::StatusOr<replay::Recording> recording = ReadSource(request->recording());
  if (!recording.ok()) return ToGrpc(recording.status());
  *response = Describe(*recording);
  return grpc::Status::OK;
}

grpc::Status ReplayService::ConvertRecording(grpc::ServerContext*,
                                             const v1::ConvertRecordingRequest* request,
                                             v1::ConvertRecordingResponse* response) {
  return ToGrpc(Convert(*request, *response));
}

grpc::Status ReplayService::ReadPrior(grpc::ServerContext*, const v1::ReadPriorRequest* request,
                                      v1::Prior* response) {
  const absl::StatusOr<PriorRecordings> prior = PriorRecordings::Read(request->recordings());
  if (!prior.ok()) return ToGrpc(prior.status());
  *response = prior->ToProto();
  return grpc::Status::OK;
}

grpc::Status ReplayService::Replay(grpc::ServerContext*, const v1::ReplayRequest* request,
                                   v1::ReplayResponse* response) {
  return ToGrpc(PlayOne(*request, *response));
}

grpc::Status ReplayService::CompareStrategies(
    grpc::ServerContext* context, const v1::CompareStrategiesRequest* request,
    grpc::ServerWriter<v1::CompareStrategiesEvent>* writer) {
  const absl::StatusOr<StudyPlan> plan = PlanOf(*request);
  if (!plan.ok()) return ToGrpc(plan.status());
  std::atomic<bool> cancelled = false;
  v1::CompareStrategiesEvent event;
  absl::StatusOr<v1::StrategyComparison> comparison =
      RunStudy(*plan, cancelled, [&](uint32_t done, uint32_t runs) {
        event.set_runs_done(done);
        event.set_runs(runs);
        if (context->IsCancelled() || !writer->Write(event)) cancelled = true;
      });
  if (!comparison.ok()) return ToGrpc(comparison.status());
  *event.mutable_result() = *std::move(comparison);
  writer->Write(event);
  return grpc::Status::OK;
}

}  // namespace tune::server
