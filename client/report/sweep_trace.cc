// SPDX-License-Identifier: Apache-2.0
#include "client/report/sweep_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/report/format.h"

namespace tune::client {
namespace {

using Json = nlohmann::json;

constexpr int kQueueLane = 1;
constexpr int kDeviceLane = 2;
constexpr int kFirstCompileLane = 3;
constexpr size_t kCompileLanesMax = 256;

struct Slice {
  double start_us = 0;
  double end_us = 0;
  std::string name;
  Json args = Json::object();
};

Json EventOf(int lane, const Slice& slice) {
  return {{"ph", "X"},
          {"pid", 1},
          {"tid", lane},
          {"ts", slice.start_us},
          {"dur", std::max(0.0, slice.end_us - slice.start_us)},
          {"name", slice.name},
          {"args", slice.args}};
}

Json NameOf(const char* what, int lane, const std::string& name) {
  return {{"ph", "M"}, {"pid", 1}, {"tid", lane}, {"name", what}, {"args", {{"name", name}}}};
}

Json ArgsOf(const v1::Trial& trial) {
  Json args = {{"trial", trial.id()},
               {"config", ToText(trial.config())},
               {"outcome", ToText(trial.outcome())}};
  if (trial.measurement().latency_ns_median() > 0) {
    args["latency"] = LatencyText(trial.measurement().latency_ns_median());
  }
  return args;
}

// The lanes of slices that overlap: each takes the first that is free.
void AddLanes(std::vector<Slice> slices, Json& events) {
  std::sort(slices.begin(), slices.end(),
            [](const Slice& a, const Slice& b) { return a.start_us < b.start_us; });
  std::vector<double> free_from;
  for (const Slice& slice : slices) {
    size_t lane = 0;
    while (lane < free_from.size() && free_from[lane] > slice.start_us) ++lane;
    if (lane == kCompileLanesMax) continue;
    if (lane == free_from.size()) free_from.push_back(0);
    free_from[lane] = slice.end_us;
    events.push_back(EventOf(kFirstCompileLane + static_cast<int>(lane), slice));
  }
  for (size_t lane = 0; lane < free_from.size(); ++lane) {
    events.push_back(NameOf("thread_name", kFirstCompileLane + static_cast<int>(lane),
                            absl::StrCat("compiles ", lane + 1, ", as late as they can have run")));
  }
}

}  // namespace

std::string TraceJson(const v1::Job& job, const std::vector<v1::Trial>& trials) {
  Json events = Json::array();
  events.push_back(NameOf("process_name", 0, absl::StrCat("job ", job.id(), ": ", job.subject())));
  events.push_back(NameOf("thread_name", kQueueLane, "queue"));
  events.push_back(NameOf("thread_name", kDeviceLane, absl::StrCat("device ", job.device_id())));
  if (job.started_unix_ms() > 0) {
    events.push_back(EventOf(kQueueLane, {.start_us = job.created_unix_ms() * 1e3,
                                          .end_us = job.started_unix_ms() * 1e3,
                                          .name = "waits for the device"}));
  }
  std::vector<Slice> compiles;
  Slice again{.name = "measures the best again, in rounds"};
  double again_seconds = 0;
  for (const v1::Trial& trial : trials) {
    const double end_us = trial.finished_unix_ms() * 1e3;
    const double start_us = end_us - trial.evaluate_seconds() * 1e6;
    if (trial.purpose() == v1::TRIAL_PURPOSE_CONFIRM) {
      again.end_us = std::max(again.end_us, end_us);
      again_seconds += trial.evaluate_seconds();
      again.args[absl::StrCat("trial ", trial.id())] = ToText(trial.config());
      continue;
    }
    if (trial.evaluate_seconds() > 0) {
      events.push_back(EventOf(
          kDeviceLane,
          {.start_us = start_us, .end_us = end_us, .name = "measures", .args = ArgsOf(trial)}));
    }
    again.start_us = std::max(again.start_us, end_us);
    if (trial.compile_cached() || !(trial.compile_seconds() > 0)) continue;
    compiles.push_back({.start_us = start_us - trial.compile_seconds() * 1e6,
                        .end_us = start_us,
                        .name = "compiles",
                        .args = ArgsOf(trial)});
  }
  if (again_seconds > 0) {
    again.start_us = std::max(again.start_us, again.end_us - again_seconds * 1e6);
    events.push_back(EventOf(kDeviceLane, again));
  }
  AddLanes(std::move(compiles), events);
  const Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tune::client
