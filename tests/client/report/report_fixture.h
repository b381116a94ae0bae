// SPDX-License-Identifier: Apache-2.0
// Reports as a daemon would send them, with everything in them that pages must cope with: counted
// and uncounted trials, failed ones, one above the roof, stale ceilings, and text that would break
// a page that took it for markup.
#pragma once

#include <cmath>
#include <string>

#include "tune/v1/comparison.pb.h"
#include "tune/v1/fusion.pb.h"
#include "tune/v1/report.pb.h"

namespace tune::client {

inline constexpr char kHostileText[] = "</script><img src=x onerror=alert(1)>|`@everyone` <b>&\"'";

inline void AddEntry(v1::Config& config, const std::string& param, int64_t value) {
  v1::ConfigEntry* entry = config.add_entries();
  entry->set_param(param);
  entry->mutable_value()->set_integer(value);
}

inline void AddUse(v1::RooflinePoint& point, v1::RooflineResource resource,
                   const std::string& ceiling, double amount, double roof, bool counted) {
  const double median = point.trial().measurement().latency_ns_median();
  v1::ResourceUse* use = point.add_uses();
  use->set_resource(resource);
  use->set_ceiling(ceiling);
  use->set_amount(amount);
  use->set_roof(roof);
  use->set_counted(counted);
  use->set_floor_ns(amount / roof * 1e9);
  use->set_utilisation(use->floor_ns() / median);
  if (resource != v1::ROOFLINE_RESOURCE_COMPUTE) use->set_intensity(1e9 / amount);
}

// 40 trials of "sketch": 36 ok (10 of them counted, 1 above the roof besides), 3 failed.
inline v1::Roofline SketchRoofline(int64_t sweep_id) {
  v1::Roofline roofline;
  v1::Sweep& sweep = *roofline.mutable_sweep();
  sweep.set_id(sweep_id);
  sweep.set_kernel_name("sketch");
  sweep.set_device_name("NVIDIA H200");
  sweep.set_target("sm_90a");
  sweep.mutable_problem()->set_dtype("bf16");
  v1::DimValue* dim = sweep.mutable_problem()->add_dims();
  dim->set_name("rows");
  dim->set_value(1024 * sweep_id);
  roofline.set_driver("580.1");
  roofline.set_compiler("NVRTC 13.0");
  roofline.set_declared_bytes(1e9);
  roofline.set_declared_flops(1e9);
  roofline.set_peak("f32");
  for (int i = 0; i < 40; ++i) {
    v1::RooflinePoint& point = *roofline.add_points();
    v1::Trial& trial = *point.mutable_trial();
    trial.set_id(100 * sweep_id + i);
    trial.set_sweep_id(sweep_id);
    AddEntry(*trial.mutable_config(), "BLOCK", 32 << (i % 4));
    AddEntry(*trial.mutable_config(), "STAGES", i / 4);
    AddEntry(*trial.mutable_config(), "FIXED", 7);
    if (i >= 37) {
      trial.set_outcome(v1::OUTCOME_COMPILE_FAILED);
      trial.set_message(kHostileText);
      continue;
    }
    trial.set_outcome(i == 36 ? v1::OUTCOME_ABOVE_ROOF : v1::OUTCOME_OK);
    v1::Measurement& m = *trial.mutable_measurement();
    const double median = i == 36 ? 100e3 : 250e3 * (1 + 0.04 * i);
    m.set_latency_ns_median(median);
    m.set_latency_ns_low(median * 0.99);
    m.set_latency_ns_high(median * 1.01);
    m.set_sample_count(60);
    m.set_clock(v1::CLOCK_CUPTI);
    trial.mutable_resources()->set_registers(32 + 8 * (i % 3));
    AddUse(point, v1::ROOFLINE_RESOURCE_DRAM, "dram_copy", i < 10 ? 1.5e9 : 1e9, 4.2e12, i < 10);
    if (i < 10) {
      AddUse(point, v1::ROOFLINE_RESOURCE_L2, "l2", 3e9, 9e12, true);
      AddUse(point, v1::ROOFLINE_RESOURCE_L1, "l1", 6e9, 30e12, true);
      point.set_profile_id(i + 1);
      point.set_reread_factor(1.5);
    }
    AddUse(point, v1::ROOFLINE_RESOURCE_COMPUTE, "f32", 1e9, 60e12, i < 10);
    point.set_floor_ns(point.uses(0).floor_ns());
    point.set_efficiency(point.floor_ns() / median);
    point.set_binding(v1::ROOFLINE_RESOURCE_DRAM);
    point.set_verdict(i == 36 ? v1::ROOFLINE_VERDICT_INVALID_ROOF : v1::ROOFLINE_VERDICT_WELL_USED);
    point.set_diagnosis("Well used, memory-bound: close to what main memory can do");
  }
  roofline.set_best_trial_id(100 * sweep_id);
  roofline.set_default_trial_id(100 * sweep_id + 5);
  roofline.add_tie_trial_ids(100 * sweep_id + 1);
  roofline.set_diagnosis("Well used, memory-bound: close to what main memory can do");
  roofline.add_notes("the ceiling dram_copy is stale: measured 31 days ago");
  return roofline;
}

inline v1::RooflineReport SketchReport(int sweeps) {
  v1::RooflineReport report;
  report.set_version("0.0.0");
  report.set_created_unix_ms(1'700'000'000'000);
  for (int i = 1; i <= sweeps; ++i) *report.add_rooflines() = SketchRoofline(i);
  return report;
}

inline v1::SweepReport SketchSweepReport() {
  v1::SweepReport report;
  *report.mutable_sweep() = SketchRoofline(1).sweep();
  report.set_version("0.0.0");
  report.set_created_unix_ms(1'700'000'000'000);
  report.set_configs_ok(36);
  report.set_explained_share(0.75);
  for (const char* name : {"BLOCK", "STAGES"}) {
    v1::ParamEffect& param = *report.add_params();
    param.set_param(name);
    param.set_explained_share(0.5);
    param.set_spread(1.25);
    for (int i = 1; i <= 3; ++i) {
      v1::ParamValue& value = *param.add_values();
      value.mutable_value()->set_integer(i);
      value.set_configs(12);
      value.set_latency_ns_best(9e3 + i);
      value.set_latency_ns_low(10e3 * i);
      value.set_latency_ns_median(11e3 * i);
      value.set_latency_ns_high(13e3 * i);
    }
    *param.mutable_best_value() = param.values(0).value();
    *param.mutable_winner_value() = param.values(1).value();
  }
  v1::Heatmap& map = *report.mutable_heatmap();
  map.set_row_param("BLOCK");
  map.set_column_param("STAGES");
  for (int i = 1; i <= 2; ++i) map.add_rows()->set_integer(i);
  for (int i = 1; i <= 3; ++i) map.add_columns()->set_integer(i);
  for (int i = 0; i < 6; ++i) {
    v1::HeatmapCell& cell = *map.add_cells();
    if (i == 5) continue;
    cell.set_configs(6);
    cell.set_latency_ns_best(10e3 + 1e3 * i);
    cell.set_latency_ns_median(12e3 + 1e3 * i);
  }
  for (int i = 1; i <= 4; ++i) {
    v1::TimelinePoint& point = *report.add_timeline();
    point.set_trial_number(i * i);
    point.set_seconds(i);
    point.set_best_latency_ns(20e3 / i);
    point.set_trial_id(100 + i);
  }
  v1::OutcomeSummary& failed = *report.add_outcomes();
  failed.set_outcome(v1::OUTCOME_COMPILE_FAILED);
  failed.set_count(3);
  failed.add_examples()->set_message(kHostileText);
  report.add_notes("a note");
  return report;
}

// Two kernels over three sizes; the second is twice as slow, has a hostile name and, at last,
// another result.
inline v1::Comparison SketchComparison() {
  v1::Comparison comparison;
  comparison.set_id(7);
  comparison.set_state(v1::JOB_STATE_DONE);
  comparison.set_subject("sketch, other: rows=8 bf16 and 2 more");
  comparison.set_device_name("NVIDIA H200");
  comparison.set_target("sm_90a");
  comparison.set_driver("580");
  comparison.set_cache_mode(v1::CACHE_MODE_COLD);
  comparison.set_rounds(7);
  comparison.set_sweep_dim("rows");
  for (int i = 1; i <= 3; ++i) {
    v1::ComparedProblem& problem = *comparison.add_problems();
    v1::DimValue& rows = *problem.mutable_problem()->add_dims();
    rows.set_name("rows");
    rows.set_value(4 << i);
    problem.mutable_problem()->set_dtype("bf16");
    problem.set_work_bytes(1e9);
    problem.set_floor_ns(2e5);
    problem.set_bound(v1::BOUND_MEMORY);
    problem.set_ceiling(5e12);
    problem.set_ceiling_source(v1::CEILING_SOURCE_MEASURED);
    for (int k = 1; k <= 2; ++k) {
      v1::ComparedKernel& kernel = *problem.add_kernels();
      kernel.set_label(k == 1 ? "sketch" : kHostileText);
      kernel.set_outcome(v1::OUTCOME_OK);
      kernel.set_agreement(v1::OUTCOME_OK);
      kernel.set_compiler("NVRTC 13.0");
      kernel.set_config_source("exact");
      kernel.set_rounds(7);
      v1::Measurement& measured = *kernel.mutable_measurement();
      measured.set_latency_ns_median(2.5e5 * k);
      measured.set_latency_ns_low(2.4e5 * k);
      measured.set_latency_ns_high(2.6e5 * k);
      measured.set_bytes_per_second(4e12 / k);
      measured.set_peak_fraction(0.8 / k);
      kernel.set_ratio(k);
      kernel.set_ratio_low(k == 1 ? 1 : 1.9);
      kernel.set_ratio_high(k == 1 ? 1 : 2.1);
    }
  }
  v1::ComparedKernel& last = *comparison.mutable_problems(2)->mutable_kernels(1);
  last.set_agreement(v1::OUTCOME_WRONG_RESULT);
  last.set_agreement_message("against the reference of sketch: y[3] is 1, the reference 2");
  return comparison;
}

inline v1::FusedWork SketchWork(const std::string& kernel, double bytes, double latency_ns) {
  v1::FusedWork work;
  work.set_name(kernel);
  work.set_kernel(kernel);
  work.mutable_problem()->set_dtype("bf16");
  v1::DimValue& rows = *work.mutable_problem()->add_dims();
  rows.set_name("rows");
  rows.set_value(4096);
  work.set_times(1);
  work.set_bytes(bytes);
  work.set_flops(1e6);
  work.set_floor_ns(bytes / 4000);
  work.set_bound(v1::BOUND_MEMORY);
  if (latency_ns <= 0) return work;
  work.set_sweep_id(7);
  work.set_latency_ns(latency_ns);
  work.set_latency_ns_low(0.99 * latency_ns);
  work.set_latency_ns_high(1.01 * latency_ns);
  work.set_peak_fraction(work.floor_ns() / latency_ns);
  return work;
}

// One fusion that was measured, and one that was not.
inline v1::FusionReport SketchFusions() {
  v1::FusionReport report;
  report.set_name("Sketch 8B");
  report.set_source(kHostileText);
  report.set_dtype("bf16");
  report.set_device_id("cuda:0");
  report.set_device_name("NVIDIA H200");
  report.set_target("sm_90a");
  report.set_driver("580.1");
  report.mutable_memory_ceiling()->set_value(4e12);
  *report.add_parts() = SketchWork("gemm", 4e9, 0);
  v1::FusionFinding& norm = *report.add_fusions();
  norm.set_name("norm + residual");
  norm.set_times(36);
  *norm.mutable_fused() = SketchWork("rmsnorm", 4e8, 1.25e5);
  *norm.add_sequence() = SketchWork("add", 3e8, 1e5);
  *norm.add_sequence() = SketchWork("rmsnorm", 2e8, 6e4);
  norm.mutable_unfused()->set_bytes(5e8);
  norm.mutable_unfused()->set_latency_ns(1.6e5);
  norm.set_bytes_ratio(1.25);
  norm.set_time_ratio(1.28);
  norm.set_time_ratio_low(1.25);
  norm.set_time_ratio_high(1.31);
  v1::FusionFinding& loss = *report.add_fusions();
  loss.set_name("cross-entropy");
  loss.set_times(1);
  *loss.mutable_fused() = SketchWork("cross_entropy", 4e9, 0);
  *loss.add_sequence() = SketchWork("softmax", 1e10, 0);
  loss.mutable_unfused()->set_bytes(1e10);
  loss.set_bytes_ratio(2.5);
  for (v1::StepFinding* step : {report.mutable_unfused_step(), report.mutable_fused_step()}) {
    const bool fused = step == report.mutable_fused_step();
    step->set_floor_ns(fused ? 9e6 : 1e7);
    step->set_memory_floor_ns(fused ? 2e6 : 3e6);
    step->set_latency_ns(fused ? 9.5e6 : 1.1e7);
    step->set_memory_latency_ns(fused ? 2.5e6 : 4e6);
    step->set_measured_share(0.5);
  }
  report.add_notes("a note of the daemon");
  return report;
}

}  // namespace tune::client
