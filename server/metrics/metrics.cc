// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/metrics.h"

#include <utility>

#include "absl/status/status.h"
#include "prometheus/text_serializer.h"

namespace tune::server {
namespace {

constexpr size_t kPrincipalsMax = 100;

// From a look-up in memory to a call that waits for a device.
const prometheus::Histogram::BucketBoundaries kCallSeconds = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10, 60};
const prometheus::Histogram::BucketBoundaries kWriteSeconds = {
    0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10, 30};

prometheus::Family<prometheus::Counter>& AddCounter(prometheus::Registry& registry,
                                                    const std::string& name,
                                                    const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::MetricFamily FamilyOf(prometheus::MetricType type, const std::string& name,
                                  const std::string& help, const LabelledValues& samples) {
  prometheus::MetricFamily family{.name = name, .help = help, .type = type};
  for (const auto& [labels, value] : samples) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    for (const auto& [label, text] : labels) metric.label.push_back({label, text});
    metric.gauge.value = value;
    metric.counter.value = value;
  }
  return family;
}

}  // namespace

Metrics::Metrics()
    : calls_(prometheus::BuildHistogram()
                 .Name("tunerd_rpc_duration_seconds")
                 .Help("Time of calls from their start to their end, streams included")
                 .Register(registry_)),
      call_ends_(AddCounter(registry_, "tunerd_rpc_calls_total",
                            "Calls that have ended, by gRPC's code of their status")),
      writes_(prometheus::BuildHistogram()
                  .Name("tunerd_store_write_duration_seconds")
                  .Help("Time of writes of the store from their request until they are durable")
                  .Register(registry_)
                  .Add({}, kWriteSeconds)),
      trials_(AddCounter(registry_, "tunerd_trials_total", "Trials stored, by their outcome")),
      jobs_(AddCounter(registry_, "tunerd_jobs_ended_total", "Jobs that have ended")),
      device_time_(AddCounter(registry_, "tunerd_device_time_seconds_total",
                              "Time that the jobs of a principal had a device")) {}

void Metrics::CountCall(const std::string& method, int code, absl::Duration time) {
  calls_.Add({{"method", method}}, kCallSeconds).Observe(absl::ToDoubleSeconds(time));
  const std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
  call_ends_.Add({{"method", method}, {"code", name}}).Increment();
}

void Metrics::CountWrite(absl::Duration time) { writes_.Observe(absl::ToDoubleSeconds(time)); }

void Metrics::CountTrial(const std::string& outcome) {
  trials_.Add({{"outcome", outcome}}).Increment();
}

void Metrics::CountJobEnd(const std::string& kind, const std::string& state) {
  jobs_.Add({{"kind", kind}, {"state", state}}).Increment();
}

void Metrics::CountDeviceTime(const std::string& principal, const std::string& device,
                              absl::Duration time) {
  device_time_.Add({{"principal", LabelOf(principal)}, {"device", device}})
      .Increment(absl::ToDoubleSeconds(time));
}

std::string Metrics::LabelOf(const std::string& principal) {
  MutexLock lock(mutex_);
  if (principals_.size() < kPrincipalsMax) principals_.insert(principal);
  return principals_.contains(principal) ? principal : "(other)";
}

prometheus::MetricFamily Gauge(const std::string& name, const std::string& help,
                               const LabelledValues& samples) {
  return FamilyOf(prometheus::MetricType::Gauge, name, help, samples);
}

prometheus::MetricFamily Counter(const std::string& name, const std::string& help,
                                 const LabelledValues& samples) {
  return FamilyOf(prometheus::MetricType::Counter, name, help, samples);
}

std::string TextOf(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace tune::server
