// SPDX-License-Identifier: Apache-2.0
// Counting a variant with hardware counters: the request and the raw quantities, before any
// conclusion is drawn (profile.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune {

// Values are stored and sent: do not renumber. tuner/device/cuda/metric_sets.h lists the metrics of
// each.
enum class MetricSet { kDefault = 1, kFlops = 2, kTensor = 3, kAll = 4 };

// "default", "flops", ...
std::string ToText(MetricSet set);

// A counter as it was read, several times.
struct CounterReading {
  std::string name;  // as CUPTI has it: "dram__bytes_read.sum"
  double value = 0;  // median of the readings
  double low = 0;
  double high = 0;
};
TUNE_FIELDS(CounterReading, name, value, low, high);

struct CountRequest {
  Program program;
  MetricSet set = MetricSet::kDefault;
  CacheMode cache_mode = CacheMode::kCold;
  int readings = 3;
  // The tensor quantity to add to the default set if the variant turns out to use tensor cores:
  // "tensor_bf16"; empty: none.
  std::string tensor_quantity;
};

// The sums over counters by name: "dram_read", "dram_write", "l2", "l1", "shared" in bytes; "f64",
// "f32", "f16", "tensor_bf16", ... in FLOPs as the chip counts them, before its multiplier;
// "tensor_instructions"; "sm_clock", "memory_clock" in Hz; "occupancy", "issue_active",
// "l2_hit_rate" in 0..1; "stall_<reason>" in warps per issue. A quantity that was not counted is
// absent.
using Quantities = std::map<std::string, double>;

struct CountReport {
  // Not ok: the variant cannot be counted, as RunReport. After kFaulted the runner is done for.
  Outcome outcome = Outcome::kOk;
  std::string message;
  std::string unavailable;  // why there are no counters here, and what to do; empty if there are
  std::string chip;         // CUPTI's name: "GH100"
  int pass_count = 0;       // launches of one reading
  int reading_count = 0;
  std::vector<CounterReading> counters;
  Quantities quantities;
  std::vector<std::string> left_out;  // "<counter>: <why it could not be read>"
};
TUNE_FIELDS(CountReport, outcome, message, unavailable, chip, pass_count, reading_count, counters,
            quantities, left_out);

// A kernel with a known count, compared with its counter.
struct CalibrationEntry {
  std::string name;      // "f32", "tensor_bf16_mma", "tensor_bf16_wgmma", "dram_read"
  std::string quantity;  // whose multiplier it tells: "tensor_bf16"
  std::string counter;   // what was read
  double expected = 0;   // operations or bytes, by construction
  double counted = 0;
  double multiplier = 0;  // expected / counted
  double tolerance = 0;   // of expected / counted against the multiplier; 0: exact
  bool passed = false;
  std::string message;  // why it did not pass
};
TUNE_FIELDS(CalibrationEntry, name, quantity, counter, expected, counted, multiplier, tolerance,
            passed, message);

struct CalibrationReport {
  std::string unavailable;
  std::string chip;
  std::vector<CalibrationEntry> entries;
};
TUNE_FIELDS(CalibrationReport, unavailable, chip, entries);

}  // namespace tune
