// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/profiler_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/device/cuda/metric_sets.h"

namespace tune::cuda {

CounterConfig::CounterConfig(CounterConfig&& other) noexcept
    : cupti_(other.cupti_),
      host_(std::exchange(other.host_, nullptr)),
      metrics_(std::move(other.metrics_)),
      left_out_(std::move(other.left_out_)),
      image_(std::move(other.image_)),
      pass_count_(other.pass_count_) {}

CounterConfig::~CounterConfig() {
  if (host_ == nullptr) return;
  TUNE_CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, params);
  params.pHostObject = host_;
  cupti_.cuptiProfilerHostDeinitialize(&params);
}

std::vector<const char*> CounterConfig::Names() const {
  std::vector<const char*> names;
  for (const std::string& metric : metrics_) names.push_back(metric.c_str());
  return names;
}

absl::StatusOr<std::vector<double>> CounterConfig::Evaluate(
    const std::vector<uint8_t>& counter_data, size_t range) const {
  std::vector<const char*> names = Names();
  std::vector<double> values(names.size());
  TUNE_CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, params);
  params.pHostObject = host_;
  params.pCounterDataImage = counter_data.data();
  params.counterDataImageSize = counter_data.size();
  params.rangeIndex = range;
  params.ppMetricNames = names.data();
  params.numMetrics = names.size();
  params.pMetricValues = values.data();
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiProfilerHostEvaluateToGpuValues(&params),
                               "cuptiProfilerHostEvaluateToGpuValues"));
  return values;
}

absl::StatusOr<std::vector<std::string>> ProfilerHost::Chips(const CuptiProfilerApi& cupti) {
  TUNE_CUPTI_PARAMS(CUpti_Profiler_Host_GetSupportedChips_Params, params);
  RETURN_IF_ERROR(cupti.Check(cupti.cuptiProfilerHostGetSupportedChips(&params),
                              "cuptiProfilerHostGetSupportedChips"));
  return std::vector<std::string>(params.ppChipNames, params.ppChipNames + params.numChips);
}

absl::StatusOr<ProfilerHost> ProfilerHost::Create(const CuptiProfilerApi& cupti, std::string chip,
                                                  std::vector<uint8_t> availability) {
  ASSIGN_OR_RETURN(const std::vector<std::string> chips, Chips(cupti));
  if (std::find(chips.begin(), chips.end(), chip) == chips.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUPTI of this toolkit does not know the chip '", chip,
                     "'; install a newer one. It knows ", absl::StrJoin(chips, ", ")));
  }
  ProfilerHost host(cupti);
  host.chip_ = std::move(chip);
  host.availability_ = std::move(availability);
  RETURN_IF_ERROR(host.ReadBases());
  return host;
}

absl::StatusOr<CUpti_Profiler_Host_Object*> ProfilerHost::NewHostObject() const {
  TUNE_CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params, params);
  params.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  params.pChipName = chip_.c_str();
  params.pCounterAvailabilityImage = availability_.empty() ? nullptr : availability_.data();
  RETURN_IF_ERROR(
      cupti_.Check(cupti_.cuptiProfilerHostInitialize(&params), "cuptiProfilerHostInitialize"));
  return params.pHostObject;
}

absl::Status ProfilerHost::ReadBases() {
  CounterConfig owner(cupti_);
  ASSIGN_OR_RETURN(owner.host_, NewHostObject());
  for (int type = 0; type < CUPTI_METRIC_TYPE__COUNT; ++type) {
    TUNE_CUPTI_PARAMS(CUpti_Profiler_Host_GetBaseMetrics_Params, params);
    params.pHostObject = owner.host_;
    params.metricType = static_cast<CUpti_MetricType>(type);
    RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiProfilerHostGetBaseMetrics(&params),
                                 "cuptiProfilerHostGetBaseMetrics"));
    bases_.insert(params.ppMetricNames, params.ppMetricNames + params.numMetrics);
  }
  return absl::OkStatus();
}

absl::StatusOr<CounterConfig> ProfilerHost::TryAdd(const std::vector<std::string>& metrics) const {
  CounterConfig config(cupti_);
  config.metrics_ = metrics;
  ASSIGN_OR_RETURN(config.host_, NewHostObject());
  std::vector<const char*> names = config.Names();
  TUNE_CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add);
  add.pHostObject = config.host_;
  add.ppMetricNames = names.data();
  add.numMetrics = names.size();
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiProfilerHostConfigAddMetrics(&add),
                               "cuptiProfilerHostConfigAddMetrics"));
  TUNE_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
  size.pHostObject = config.host_;
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiProfilerHostGetConfigImageSize(&size),
                               "cuptiProfilerHostGetConfigImageSize"));
  config.image_.resize(size.configImageSize);
  TUNE_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, image);
  image.pHostObject = config.host_;
  image.configImageSize = config.image_.size();
  image.pConfigImage = config.image_.data();
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiProfilerHostGetConfigImage(&image),
                               "cuptiProfilerHostGetConfigImage"));
  TUNE_CUPTI_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, passes);
  passes.configImageSize = config.image_.size();
  passes.pConfigImage = config.image_.data();
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiProfilerHostGetNumOfPasses(&passes),
                               "cuptiProfilerHostGetNumOfPasses"));
  config.pass_count_ = static_cast<int>(passes.numOfPasses);
  return config;
}

// A single wrong name fails the whole list, and the error does not say which.
std::vector<std::string> ProfilerHost::Schedulable(const std::vector<std::string>& metrics,
                                                   LeftOut& left_out) const {
  if (TryAdd(metrics).ok()) return metrics;
  std::vector<std::string> kept;
  for (const std::string& metric : metrics) {
    const absl::Status alone = TryAdd({metric}).status();
    if (alone.ok()) {
      kept.push_back(metric);
    } else if (Has(BaseOf(metric))) {
      left_out.emplace_back(metric, std::string(alone.message()));
    } else {
      left_out.emplace_back(metric, absl::StrCat(chip_, " has no such counter"));
    }
  }
  return kept;
}

absl::StatusOr<CounterConfig> ProfilerHost::Configure(const std::vector<std::string>& metrics,
                                                      int passes_max) const {
  LeftOut left_out;
  const std::vector<std::string> kept = Schedulable(metrics, left_out);
  if (kept.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(chip_, " can count none of ", absl::StrJoin(metrics, ", "),
                     left_out.empty() ? "" : absl::StrCat(": ", left_out.front().second)));
  }
  ASSIGN_OR_RETURN(CounterConfig config, TryAdd(kept));
  config.left_out_ = std::move(left_out);
  if (config.pass_count() > passes_max) {
    return absl::FailedPreconditionError(absl::StrCat("these counters take ", config.pass_count(),
                                                      " passes on ", chip_, ", more than ",
                                                      passes_max, ": ask for a smaller set"));
  }
  return config;
}

}  // namespace tune::cuda
