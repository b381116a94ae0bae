// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/metric_sets.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tune::cuda {
namespace {

// A row of the tables below: the first name that the chip has is read.
struct Alias {
  const char* quantity;
  double weight;
  std::array<const char*, 2> metrics;
};

constexpr double kPercent = 0.01;
constexpr double kSharedWavefrontBytes = 128;

// Bytes of each level, clocks. One pass on chips from GA100 on.
constexpr Alias kHardware[] = {
    {"dram_read", 1, {"dram__bytes_read.sum", "dram__bytes_op_read.sum"}},
    {"dram_write", 1, {"dram__bytes_write.sum", "dram__bytes_op_write.sum"}},
    {"l2", 1, {"lts__t_bytes.sum"}},
    {"l1", 1, {"l1tex__t_bytes.sum"}},
    {"tensor_instructions", 1, {"sm__inst_executed_pipe_tensor.sum"}},
    {"sm_cycles", 1, {"sm__cycles_elapsed.max"}},
    {"counted_ns", 1, {"gpu__time_duration.sum"}},
    {"sm_clock", 1, {"sm__cycles_elapsed.avg.per_second"}},
    {"memory_clock", 1, {"dram__cycles_elapsed.avg.per_second"}},
    {"l2_clock", 1, {"lts__cycles_elapsed.avg.per_second"}},
};

// FLOPs from instruction counts of threads; an FMA is two, a packed pair of them four.
constexpr Alias kInstructions[] = {
    {"f32", 1, {"sm__sass_thread_inst_executed_op_fadd_pred_on.sum"}},
    {"f32", 1, {"sm__sass_thread_inst_executed_op_fmul_pred_on.sum"}},
    {"f32", 2, {"sm__sass_thread_inst_executed_op_ffma_pred_on.sum"}},
    {"f32", 2, {"sm__sass_thread_inst_executed_op_fadd2_pred_on.sum"}},
    {"f32", 2, {"sm__sass_thread_inst_executed_op_fmul2_pred_on.sum"}},
    {"f32", 4, {"sm__sass_thread_inst_executed_op_ffma2_pred_on.sum"}},
    {"f64", 1, {"sm__sass_thread_inst_executed_op_dadd_pred_on.sum"}},
    {"f64", 1, {"sm__sass_thread_inst_executed_op_dmul_pred_on.sum"}},
    {"f64", 2, {"sm__sass_thread_inst_executed_op_dfma_pred_on.sum"}},
    {"f16", 1, {"sm__sass_thread_inst_executed_op_hadd_pred_on.sum"}},
    {"f16", 1, {"sm__sass_thread_inst_executed_op_hmul_pred_on.sum"}},
    {"f16", 2, {"sm__sass_thread_inst_executed_op_hfma_pred_on.sum"}},
};

// Operations of the tensor cores, which each generation names anew.
constexpr Alias kTensor[] = {
    {"tensor_bf16", 1, {"sm__ops_path_tensor_src_bf16_dst_fp32.sum"}},
    {"tensor_f16",
     1,
     {"sm__ops_path_tensor_src_fp16.sum", "sm__ops_path_tensor_src_fp16_dst_fp32.sum"}},
    {"tensor_f16", 1, {"sm__ops_path_tensor_src_fp16_dst_fp16.sum"}},
    {"tensor_tf32", 1, {"sm__ops_path_tensor_src_tf32_dst_fp32.sum"}},
    {"tensor_f64", 1, {"sm__ops_path_tensor_src_fp64.sum"}},
    {"tensor_i8", 1, {"sm__ops_path_tensor_src_int8.sum"}},
    {"tensor_f8",
     1,
     {"sm__ops_path_tensor_src_fp8.sum", "sm__ops_path_tensor_src_fp8_dst_fp32.sum"}},
    {"tensor_f8", 1, {"sm__ops_path_tensor_src_fp8_dst_fp16.sum"}},
    {"tensor_f8", 1, {"sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum"}},
    {"tensor_f8", 1, {"sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp16.sum"}},
};

constexpr Alias kOccupancy[] = {
    {"occupancy", kPercent, {"sm__warps_active.avg.pct_of_peak_sustained_active"}},
    {"issue_active", kPercent, {"smsp__issue_active.avg.pct_of_peak_sustained_active"}},
    {"shared", kSharedWavefrontBytes, {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"}},
    {"l2_hit_rate", kPercent, {"lts__t_sector_hit_rate.pct"}},
};

// Warps in each state, per issued instruction. "selected" is not one of them: it is the issue.
constexpr const char* kStalls[] = {
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "gmma",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "membar",
    "mio_throttle",
    "misc",
    "math_pipe_throttle",
    "not_selected",
    "no_instruction",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
};

template <size_t kRows>
void AddTerms(const Alias (&rows)[kRows], const HasMetric& has, MetricGroup& group) {
  for (const Alias& row : rows) {
    for (const char* metric : row.metrics) {
      if (metric == nullptr || !has(BaseOf(metric))) continue;
      group.terms.push_back({row.quantity, row.weight, metric});
      break;
    }
  }
}

MetricGroup OccupancyGroup(const HasMetric& has) {
  MetricGroup group{.name = "O"};
  AddTerms(kOccupancy, has, group);
  for (const char* reason : kStalls) {
    const std::string base =
        absl::StrCat("smsp__average_warps_issue_stalled_", reason, "_per_issue_active");
    if (has(base)) group.terms.push_back({absl::StrCat("stall_", reason), 1, base + ".ratio"});
  }
  return group;
}

}  // namespace

std::string BaseOf(const std::string& metric) { return metric.substr(0, metric.find('.')); }

std::vector<MetricGroup> GroupsOf(MetricSet set, const HasMetric& has) {
  std::vector<MetricGroup> groups;
  if (set != MetricSet::kFlops) {
    AddTerms(kHardware, has, groups.emplace_back(MetricGroup{.name = "H"}));
  }
  AddTerms(kInstructions, has, groups.emplace_back(MetricGroup{.name = "S"}));
  if (set == MetricSet::kTensor || set == MetricSet::kAll) {
    AddTerms(kTensor, has, groups.emplace_back(MetricGroup{.name = "X"}));
  }
  if (set == MetricSet::kAll) groups.push_back(OccupancyGroup(has));
  std::erase_if(groups, [](const MetricGroup& group) { return group.terms.empty(); });
  return groups;
}

MetricGroup TensorGroup(const std::string& quantity, const HasMetric& has) {
  MetricGroup group{.name = quantity};
  AddTerms(kTensor, has, group);
  std::erase_if(group.terms, [&](const MetricTerm& term) { return term.quantity != quantity; });
  return group;
}

Quantities QuantitiesOf(const std::vector<MetricGroup>& groups,
                        const std::vector<CounterReading>& readings) {
  Quantities quantities;
  for (const MetricGroup& group : groups) {
    for (const MetricTerm& term : group.terms) {
      const auto reading = std::find_if(
          readings.begin(), readings.end(),
          [&](const CounterReading& candidate) { return candidate.name == term.metric; });
      if (reading != readings.end()) quantities[term.quantity] += term.weight * reading->value;
    }
  }
  return quantities;
}

}  // namespace tune::cuda
