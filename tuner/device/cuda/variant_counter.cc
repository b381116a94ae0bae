// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/variant_counter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::cuda {
namespace {

constexpr int kPassesMax = 24;  // of one group

bool IsOfTheVariant(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnavailable(status) ||
         absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
}

}  // namespace

absl::Status VariantCounter::Prepare(const LoadedProgram& program, CacheMode mode) {
  RETURN_IF_ERROR(problem_.RestoreInOuts());
  RETURN_IF_ERROR(problem_.PoisonOutputs());
  RETURN_IF_ERROR(program.SetSymbols());
  if (mode == CacheMode::kCold) return harness_.FlushCache();
  RETURN_IF_ERROR(program.Launch());
  RETURN_IF_ERROR(program.SetSymbols());
  return problem_.RestoreInOuts();
}

absl::Status VariantCounter::CountGroup(const RangeProfiler::Work& work, const MetricGroup& group,
                                        int readings, CountReport& report) {
  std::vector<std::string> metrics;
  for (const MetricTerm& term : group.terms) metrics.push_back(term.metric);
  ASSIGN_OR_RETURN(CounterConfig config, profiler_.host().Configure(metrics, kPassesMax));
  for (const auto& [metric, why] : config.left_out()) {
    report.left_out.push_back(absl::StrCat(metric, ": ", why));
  }
  ASSIGN_OR_RETURN(std::vector<CounterReading> counted,
                   profiler_.ReadSeveral(config, work, readings));
  report.pass_count += config.pass_count();
  report.counters.insert(report.counters.end(), counted.begin(), counted.end());
  for (const auto& [quantity, value] : QuantitiesOf({group}, counted)) {
    report.quantities[quantity] += value;
  }
  return absl::OkStatus();
}

absl::Status VariantCounter::Count(const LoadedProgram& program, const CountRequest& request,
                                   CountReport& report) {
  report.chip = profiler_.host().chip();
  report.reading_count = request.readings;
  const HasMetric has = [this](const std::string& base) { return profiler_.host().Has(base); };
  const RangeProfiler::Work work = {.prepare = [&] { return Prepare(program, request.cache_mode); },
                                    .launch = [&] { return program.Launch(); }};
  const auto add = [&](const MetricGroup& group) -> absl::Status {
    const absl::Status counted = CountGroup(work, group, request.readings, report);
    if (counted.ok() || IsOfTheVariant(counted)) return counted;
    if (report.counters.empty() && report.unavailable.empty()) {
      report.unavailable = std::string(counted.message());
    }
    report.left_out.push_back(absl::StrCat("group ", group.name, ": ", counted.message()));
    return absl::OkStatus();
  };
  for (const MetricGroup& group : GroupsOf(request.set, has)) RETURN_IF_ERROR(add(group));
  // The operations of the tensor cores take a pass or more for each type, so they are counted only
  // if there are any, and of the declared type unless the set asks for all.
  const auto tensor = report.quantities.find("tensor_instructions");
  if (request.set == MetricSet::kDefault && !request.tensor_quantity.empty() &&
      tensor != report.quantities.end() && tensor->second > 0) {
    const MetricGroup group = TensorGroup(request.tensor_quantity, has);
    if (!group.terms.empty()) RETURN_IF_ERROR(add(group));
  }
  if (!report.counters.empty()) report.unavailable.clear();
  ASSIGN_OR_RETURN(Verdict verdict, problem_.Check());
  if (verdict.right) return absl::OkStatus();
  report.outcome = verdict.harness_damaged ? Outcome::kFaulted : Outcome::kWrongResult;
  report.message = absl::StrCat("in a counted launch: ", verdict.message);
  return absl::OkStatus();
}

}  // namespace tune::cuda
