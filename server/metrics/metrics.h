// SPDX-License-Identifier: Apache-2.0
// Counters of events for Prometheus: calls, writes of the store, trials, jobs, device time. What
// happens calls a Count function; a scrape calls Collect and TextOf. Figures that some other part
// has anyway, such as the length of the queue, are added to Collect's by metrics_module.cc.
//
// Names begin with tunerd_, have base units, and end with _total if they only grow.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/metric_family.h"
#include "prometheus/registry.h"

namespace tune::server {

// Thread-safe.
class Metrics {
 public:
  Metrics();

  // `method`: "/tune.v1.RecordService/Lookup"; `code`: gRPC's.
  void CountCall(const std::string& method, int code, absl::Duration time);
  // A write of the store, from its request until it is durable.
  void CountWrite(absl::Duration time);
  void CountTrial(const std::string& outcome);
  void CountJobEnd(const std::string& kind, const std::string& state);
  void CountDeviceTime(const std::string& principal, const std::string& device,
                       absl::Duration time);

  std::vector<prometheus::MetricFamily> Collect() const { return registry_.Collect(); }

 private:
  // The principal's label: its name, or "(other)" for those beyond the first kPrincipalsMax.
  std::string LabelOf(const std::string& principal);

  prometheus::Registry registry_;
  prometheus::Family<prometheus::Histogram>& calls_;
  prometheus::Family<prometheus::Counter>& call_ends_;
  prometheus::Histogram& writes_;
  prometheus::Family<prometheus::Counter>& trials_;
  prometheus::Family<prometheus::Counter>& jobs_;
  prometheus::Family<prometheus::Counter>& device_time_;
  Mutex mutex_;
  std::set<std::string> principals_ ABSL_GUARDED_BY(mutex_);
};

// A family with the labels and values of each of its metrics.
using LabelledValues = std::vector<std::pair<std::map<std::string, std::string>, double>>;
prometheus::MetricFamily Gauge(const std::string& name, const std::string& help,
                               const LabelledValues& samples);
prometheus::MetricFamily Counter(const std::string& name, const std::string& help,
                                 const LabelledValues& samples);
// The families in Prometheus's text format. Labels are made UTF-8.
std::string TextOf(const std::vector<prometheus::MetricFamily>& families);

}  // namespace tune::server
