// SPDX-License-Identifier: Apache-2.0
#include "server/report/fusion_report.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/catalogue.h"
#include "server/devices/device_convert.h"
#include "server/report/fusion_table.h"
#include "server/report/sweep_evidence.h"
#include "server/rpc/wanted.h"
#include "server/wire/nouns.h"
#include "tuner/device_profile.h"
#include "tuner/roofline/roofline.h"

namespace tune::server {
namespace {

constexpr char kMemoryCeiling[] = "dram_copy";

// The results of a device's sweeps, newest first.
class Evidence {
 public:
  static absl::StatusOr<Evidence> Of(const FusionSources& sources) {
    Evidence evidence(sources);
    ASSIGN_OR_RETURN(evidence.sweeps_, sources.store.ListSweeps(kSweepsSearched));
    return evidence;
  }

  // The newest finished sweep of just this kernel, as it is now, on just this problem and device.
  const db::SweepRow* Find(const Workload& workload) const {
    for (const db::SweepRow& row : sweeps_) {
      if (row.kernel_hash == workload.kernel().hash() && row.problem == workload.problem &&
          row.device_name == sources_.device.view.status.info.name &&
          row.job.state == db::JobState::kDone && row.cache_mode == CacheMode::kCold &&
          row.best_trial_id != 0) {
        return &row;
      }
    }
    return nullptr;
  }

  // Adds the figures of a sweep's best config.
  absl::Status Describe(const db::SweepRow& row, v1::FusedWork& work) const {
    ASSIGN_OR_RETURN(const SweepView view, sources_.sweeps.Get(row.id));
    if (!view.result) return absl::OkStatus();
    const Measurement& measured = view.result->best.measurement;
    work.set_sweep_id(row.id);
    work.set_latency_ns(measured.latency_ns_median);
    work.set_latency_ns_low(measured.latency_ns_low);
    work.set_latency_ns_high(measured.latency_ns_high);
    if (work.floor_ns() > 0) work.set_peak_fraction(work.floor_ns() / work.latency_ns());
    ASSIGN_OR_RETURN(const auto counted, CountedTrials(sources_.store, row.id));
    const auto found = counted.find(row.best_trial_id);
    if (found == counted.end()) return absl::OkStatus();
    const CountedWork& counts = found->second.work;
    if (counts.dram_read_bytes && counts.dram_write_bytes) {
      work.set_counted_bytes(*counts.dram_read_bytes + *counts.dram_write_bytes);
    }
    return absl::OkStatus();
  }

 private:
  explicit Evidence(const FusionSources& sources) : sources_(sources) {}

  const FusionSources& sources_;
  std::vector<db::SweepRow> sweeps_;
};

// Makes a report.
class Maker {
 public:
  Maker(const FusionSources& sources, const FusionResolver& resolver, const Evidence& evidence,
        const Cancelled& cancelled)
      : resolver_(resolver),
        evidence_(evidence),
        cancelled_(cancelled),
        cache_bytes_(sources.device.view.status.info.l2_bytes) {
    for (const SeenCeiling& seen : sources.device.view.ceilings) {
      ceilings_.push_back(seen.row.ceiling);
    }
  }

  absl::StatusOr<v1::FusedWork> Work(const v1::FusionPart& part) const {
    RETURN_IF_ERROR(CheckWanted(cancelled_));
    ASSIGN_OR_RETURN(const FusedKernel kernel, resolver_.Resolve(part));
    const ProblemPlan& plan = kernel.workload.plan;
    const Roof roof = RoofFor(plan, ceilings_, cache_bytes_);
    v1::FusedWork work;
    work.set_name(kernel.name);
    work.set_kernel(part.kernel());
    *work.mutable_problem() = ToProto(kernel.workload.problem);
    work.set_times(kernel.times);
    work.set_bytes(plan.work.bytes);
    work.set_flops(plan.work.flops);
    work.set_floor_ns(roof.floor_ns);
    work.set_bound(static_cast<v1::Bound>(roof.bound));
    if (const db::SweepRow* row = evidence_.Find(kernel.workload); row != nullptr) {
      RETURN_IF_ERROR(evidence_.Describe(*row, work));
    }
    return work;
  }

  absl::StatusOr<v1::FusionFinding> Finding(const v1::Fusion& fusion) const;

 private:
  const FusionResolver& resolver_;
  const Evidence& evidence_;
  const Cancelled& cancelled_;
  const int64_t cache_bytes_;
  std::vector<Ceiling> ceilings_;
};

// Sums of what is known of all; 0 where it is not known of one.
v1::FusedSum SumOf(const google::protobuf::RepeatedPtrField<v1::FusedWork>& works) {
  v1::FusedSum sum;
  const auto add = [&](double (v1::FusedWork::*of)() const) {
    double total = 0;
    for (const v1::FusedWork& work : works) {
      if ((work.*of)() <= 0) return 0.0;
      total += work.times() * (work.*of)();
    }
    return total;
  };
  sum.set_bytes(add(&v1::FusedWork::bytes));
  sum.set_counted_bytes(add(&v1::FusedWork::counted_bytes));
  sum.set_floor_ns(add(&v1::FusedWork::floor_ns));
  sum.set_latency_ns(add(&v1::FusedWork::latency_ns));
  sum.set_latency_ns_low(add(&v1::FusedWork::latency_ns_low));
  sum.set_latency_ns_high(add(&v1::FusedWork::latency_ns_high));
  return sum;
}

double Over(double a, double b) { return a > 0 && b > 0 ? a / b : 0; }

absl::StatusOr<v1::FusionFinding> Maker::Finding(const v1::Fusion& fusion) const {
  v1::FusionFinding finding;
  finding.set_name(fusion.name());
  finding.set_doc(fusion.doc());
  ASSIGN_OR_RETURN(const double times, resolver_.Times(fusion.name(), fusion.times()));
  finding.set_times(times);
  ASSIGN_OR_RETURN(*finding.mutable_fused(), Work(fusion.fused()));
  for (const v1::FusionPart& part : fusion.sequence()) {
    ASSIGN_OR_RETURN(*finding.add_sequence(), Work(part));
  }
  if (finding.fused().times() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "fusion '", fusion.name(), "': times is of the fusion, not of its fused kernel"));
  }
  const v1::FusedWork& fused = finding.fused();
  const v1::FusedSum unfused = *finding.mutable_unfused() = SumOf(finding.sequence());
  finding.set_bytes_counted(fused.counted_bytes() > 0 && unfused.counted_bytes() > 0);
  finding.set_bytes_ratio(finding.bytes_counted()
                              ? Over(unfused.counted_bytes(), fused.counted_bytes())
                              : Over(unfused.bytes(), fused.bytes()));
  finding.set_time_ratio(Over(unfused.latency_ns(), fused.latency_ns()));
  finding.set_time_ratio_low(Over(unfused.latency_ns_low(), fused.latency_ns_high()));
  finding.set_time_ratio_high(Over(unfused.latency_ns_high(), fused.latency_ns_low()));
  return finding;
}

// Adds a kernel that a step has `times` times.
class StepSum {
 public:
  void Add(const v1::FusedWork& work, double times) {
    times *= work.times();
    const bool is_measured = work.latency_ns() > 0;
    const double latency = times * (is_measured ? work.latency_ns() : work.floor_ns());
    const bool is_memory = work.bound() == v1::BOUND_MEMORY;
    step_.set_floor_ns(step_.floor_ns() + times * work.floor_ns());
    step_.set_latency_ns(step_.latency_ns() + latency);
    if (is_memory) {
      step_.set_memory_floor_ns(step_.memory_floor_ns() + times * work.floor_ns());
      step_.set_memory_latency_ns(step_.memory_latency_ns() + latency);
    }
    if (is_measured) measured_ns_ += latency;
  }

  v1::StepFinding Take() {
    step_.set_measured_share(Over(measured_ns_, step_.latency_ns()));
    return step_;
  }

 private:
  v1::StepFinding step_;
  double measured_ns_ = 0;
};

void AddSteps(v1::FusionReport& report) {
  StepSum unfused;
  StepSum fused;
  for (const v1::FusedWork& part : report.parts()) {
    unfused.Add(part, 1);
    fused.Add(part, 1);
  }
  for (const v1::FusionFinding& finding : report.fusions()) {
    fused.Add(finding.fused(), finding.times());
    for (const v1::FusedWork& work : finding.sequence()) unfused.Add(work, finding.times());
  }
  *report.mutable_unfused_step() = unfused.Take();
  *report.mutable_fused_step() = fused.Take();
}

void AddNotes(const DeviceChoice& device, v1::FusionReport& report) {
  const DeviceStatus& status = device.view.status;
  if (!report.has_memory_ceiling()) {
    report.add_notes(absl::StrCat("no ceilings are known for ", status.info.name,
                                  ": `tunectl device ceilings --device ", status.id,
                                  "` measures them"));
  } else if (report.memory_ceiling().stale()) {
    report.add_notes(absl::StrCat("the ceiling ", kMemoryCeiling,
                                  " is stale: ", report.memory_ceiling().stale_reason()));
  }
  const bool has_counters = ProfileOfDevice(status.id).has_counters;
  const bool all_counted =
      std::all_of(report.fusions().begin(), report.fusions().end(),
                  [](const v1::FusionFinding& finding) { return finding.bytes_counted(); });
  if (!all_counted) {
    report.add_notes(has_counters
                         ? "bytes marked * are as the specs declare them: `tunectl profile` of the "
                           "best config counts them"
                         : "bytes are as the specs declare them: this device has no counters");
  }
  report.add_notes(
      "a sequence's time is the sum of its kernels', each measured by itself with a cold cache: "
      "what stays in the last-level cache between them is not taken into account");
}

}  // namespace

absl::StatusOr<v1::FusionReport> MakeFusionReport(const v1::GetFusionReportRequest& request,
                                                  const FusionSources& sources,
                                                  const Cancelled& cancelled) {
  const std::string text =
      request.table_text().empty() ? std::string(CatalogueFusions()) : request.table_text();
  ASSIGN_OR_RETURN(const v1::FusionTable table, ParseFusionTable(text));
  const DeviceStatus& status = sources.device.view.status;
  ASSIGN_OR_RETURN(const auto sizes, SizesOf(table, sources.device.traits.target,
                                             {request.sizes().begin(), request.sizes().end()}));
  const FusionResolver resolver(table, sizes, sources.catalogue, sources.device);
  ASSIGN_OR_RETURN(const Evidence evidence, Evidence::Of(sources));
  const Maker maker(sources, resolver, evidence, cancelled);

  v1::FusionReport report;
  report.set_name(table.name());
  report.set_source(table.source());
  report.set_dtype(table.dtype());
  for (const v1::Dim& size : table.sizes()) {
    v1::DimValue& value = *report.add_sizes();
    value.set_name(size.name());
    value.set_value(sizes.at(size.name()));
  }
  report.set_device_id(status.id);
  report.set_device_name(status.info.name);
  report.set_target(sources.device.traits.target);
  report.set_driver(status.info.driver);
  for (const SeenCeiling& seen : sources.device.view.ceilings) {
    if (seen.row.ceiling.name == kMemoryCeiling) *report.mutable_memory_ceiling() = ToProto(seen);
  }
  for (const v1::FusionPart& part : table.parts()) {
    ASSIGN_OR_RETURN(*report.add_parts(), maker.Work(part));
  }
  for (const v1::Fusion& fusion : table.fusions()) {
    ASSIGN_OR_RETURN(*report.add_fusions(), maker.Finding(fusion));
  }
  AddSteps(report);
  AddNotes(sources.device, report);
  return report;
}

}  // namespace tune::server
