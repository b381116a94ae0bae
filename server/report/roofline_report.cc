// SPDX-License-Identifier: Apache-2.0
#include "server/report/roofline_report.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "server/devices/device_convert.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr RooflineLimit kReportMax{.points = 50'000, .bytes = 16 << 20};

v1::RooflinePoint MakePoint(const Trial& trial, const RooflineBasis& basis,
                            const RooflineSources& sources) {
  v1::RooflinePoint point;
  *point.mutable_trial() = ToProto(trial, Samples::kOmit);
  const bool timed = trial.measurement.latency_ns_median > 0 &&
                     (trial.outcome == Outcome::kOk || trial.outcome == Outcome::kAboveRoof);
  if (!timed) return point;
  *point.mutable_trial()->mutable_measurement() = ToProto(trial.measurement, Samples::kOmit);
  std::optional<CountedWork> counted;
  if (const auto it = sources.counted.find(trial.id); it != sources.counted.end()) {
    counted = it->second.work;
    point.set_profile_id(it->second.profile_id);
  }
  const Diagnosis diagnosis = Diagnose(basis, counted, trial);
  Encode(diagnosis, point, {"uses", "sentence"});
  for (const ResourceUse& use : diagnosis.uses) {
    Encode(use, *point.add_uses(), {"believable_ns"});
  }
  point.set_diagnosis(diagnosis.sentence);
  return point;
}

// Keeps the fastest points within the limit, in their order.
void LimitPoints(const RooflineLimit& limit, v1::Roofline& roofline) {
  auto& points = *roofline.mutable_points();
  std::vector<std::pair<double, int>> ranked;
  for (const v1::RooflinePoint& point : points) {
    const double median = point.trial().measurement().latency_ns_median();
    ranked.emplace_back(median > 0 ? median : 1e300, static_cast<int>(ranked.size()));
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<bool> kept(ranked.size());
  size_t count = 0;
  size_t bytes = 0;
  for (const auto& [latency, place] : ranked) {
    bytes += points[place].ByteSizeLong();
    if (count == limit.points || bytes > limit.bytes) break;
    kept[static_cast<size_t>(place)] = true;
    ++count;
  }
  roofline.set_points_omitted(ranked.size() - count);
  size_t place = 0;
  const auto end = std::remove_if(points.begin(), points.end(),
                                  [&](const v1::RooflinePoint&) { return !kept[place++]; });
  points.erase(end, points.end());
}

void AddNotes(const SweepEvidence& evidence, const RooflineSources& sources,
              v1::Roofline& roofline) {
  if (sources.counted.empty()) {
    roofline.add_notes(
        "no trial of this sweep has hardware counters: bytes and FLOPs are what the kernel's spec "
        "declares, so only main memory and arithmetic are shown. `tunectl profile` counts them");
  }
  if (sources.ceilings.empty()) {
    roofline.add_notes(absl::StrCat("no ceilings are known for ", evidence.key.device_name,
                                    " under driver ", evidence.key.driver,
                                    ": `tunectl device ceilings` measures them"));
  }
  std::set<std::string> used;
  for (const v1::RooflinePoint& point : roofline.points()) {
    for (const v1::ResourceUse& use : point.uses()) used.insert(use.ceiling());
  }
  for (const SeenCeiling& seen : sources.ceilings) {
    if (seen.stale() && used.contains(seen.row.ceiling.name)) {
      roofline.add_notes(absl::StrCat("the ceiling ", seen.row.ceiling.name,
                                      " is stale: ", seen.stale_reason,
                                      "; `tunectl device ceilings` measures it again"));
    }
  }
  if (evidence.reused > 0) {
    roofline.add_notes(absl::StrCat(Counted(evidence.reused, "trial was", "trials were"),
                                    " measured by earlier sweeps of the same kernel, "
                                    "problem, device, driver and compiler"));
  }
  if (evidence.view.row.cache_mode == CacheMode::kWarm) {
    roofline.add_notes(
        "measured with a warm cache: data that fit into the last-level cache need "
        "not come from main memory");
  }
  if (roofline.points_omitted() > 0) {
    roofline.add_notes(absl::StrCat("the slowest ", roofline.points_omitted(),
                                    " trials are left out of this report"));
  }
}

}  // namespace

RooflineLimit NextLimit(const v1::RooflineReport& made, size_t left) {
  size_t points = 0;
  for (const v1::Roofline& roofline : made.rooflines()) {
    points += static_cast<size_t>(roofline.points_size());
  }
  const size_t bytes = std::min(kReportMax.bytes, made.ByteSizeLong());
  return {.points = std::min(RooflineLimit{}.points, (kReportMax.points - points) / left),
          .bytes = (kReportMax.bytes - bytes) / left};
}

absl::StatusOr<v1::Roofline> MakeRoofline(const SweepEvidence& evidence,
                                          const RooflineSources& sources,
                                          const RooflineLimit& limit) {
  const db::SweepRow& row = evidence.view.row;
  // Declared work does not depend on the device, so a nominal one of the target will do.
  ASSIGN_OR_RETURN(TargetTraits traits, TargetTraitsFor(row.target));
  ASSIGN_OR_RETURN(ProblemPlan plan, sources.kernel.PlanProblem(row.problem, traits));
  RooflineBasis basis{.declared = plan.work,
                      .written_bytes = WrittenBytes(plan),
                      .cache_bytes = static_cast<double>(sources.cache_bytes)};
  for (const SeenCeiling& seen : sources.ceilings) basis.ceilings.push_back(seen.row.ceiling);
  v1::Roofline roofline;
  *roofline.mutable_sweep() = ToProto(evidence.view);
  roofline.set_driver(evidence.key.driver);
  roofline.set_compiler(evidence.key.compiler);
  roofline.set_declared_bytes(plan.work.bytes);
  roofline.set_declared_flops(plan.work.flops);
  roofline.set_peak(plan.work.peak);
  roofline.set_written_bytes(basis.written_bytes);
  roofline.set_cache_bytes(sources.cache_bytes);
  for (const SeenCeiling& seen : sources.ceilings) *roofline.add_ceilings() = ToProto(seen);
  for (const Trial& trial : evidence.trials) {
    *roofline.add_points() = MakePoint(trial, basis, sources);
  }
  LimitPoints(limit, roofline);
  if (evidence.view.result) {
    const SweepResult& result = *evidence.view.result;
    roofline.set_best_trial_id(result.best.id);
    if (result.default_trial) roofline.set_default_trial_id(result.default_trial->id);
    for (const Trial& tie : result.ties) roofline.add_tie_trial_ids(tie.id);
  }
  for (const v1::RooflinePoint& point : roofline.points()) {
    if (roofline.best_trial_id() != 0 && point.trial().id() == roofline.best_trial_id()) {
      roofline.set_diagnosis(point.diagnosis());
    }
  }
  AddNotes(evidence, sources, roofline);
  return roofline;
}

}  // namespace tune::server
