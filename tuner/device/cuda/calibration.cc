// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/calibration.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/device/cuda/metric_sets.h"
#include "tuner/device/cuda/probe.h"
#include "tuner/device/cuda/probe_bench.h"

namespace tune::cuda {
namespace {

constexpr int kRoundsShort = 64;
constexpr int kRoundsLong = 192;
constexpr int kCalibrationPassesMax = 16;
constexpr double kMemoryTolerance = 0.02;
constexpr size_t kColdBytes[] = {size_t{4} << 20, size_t{64} << 20};

// Does the error end the whole calibration? It does if the context is lost or counting is
// forbidden.
bool IsFatal(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnavailable(status) ||
         absl::IsFailedPrecondition(status);
}

class Calibrator {
 public:
  Calibrator(const DeviceContext& context, Harness& harness, RangeProfiler& profiler,
             ProbeBench& bench)
      : context_(context), harness_(harness), profiler_(profiler), bench_(bench) {}

  absl::Status Run() {
    for (const Probe& probe : CountedProbesFor(context_.sm)) {
      RETURN_IF_ERROR(Keep(CountOperations(probe)));
    }
    RETURN_IF_ERROR(CountCopy());
    for (const size_t bytes : kColdBytes) RETURN_IF_ERROR(CountColdRead(bytes));
    return absl::OkStatus();
  }
  std::vector<CalibrationEntry> entries() && { return std::move(entries_); }

 private:
  static absl::Status Nothing() { return absl::OkStatus(); }

  absl::Status Keep(const absl::Status& status) {
    if (status.ok()) return status;
    if (IsFatal(status)) return status;
    entries_.back().message = std::string(status.message());
    return absl::OkStatus();
  }

  CalibrationEntry& Add(const std::string& name, const std::string& quantity, double tolerance) {
    entries_.push_back({.name = name, .quantity = quantity, .tolerance = tolerance});
    return entries_.back();
  }

  // The group that counts a quantity.
  MetricGroup GroupOf(const std::string& quantity) const {
    const HasMetric has = [this](const std::string& base) { return profiler_.host().Has(base); };
    if (absl::StartsWith(quantity, "tensor_")) return TensorGroup(quantity, has);
    for (MetricGroup& group : GroupsOf(MetricSet::kDefault, has)) {
      std::erase_if(group.terms, [&](const MetricTerm& term) { return term.quantity != quantity; });
      if (!group.terms.empty()) return group;
    }
    return {};
  }

  // Reads the quantity once while `work` runs.
  absl::StatusOr<double> Count(const MetricGroup& group, const RangeProfiler::Work& work) {
    std::vector<std::string> metrics;
    for (const MetricTerm& term : group.terms) metrics.push_back(term.metric);
    if (metrics.empty()) return absl::NotFoundError("the chip has no counter for it");
    ASSIGN_OR_RETURN(CounterConfig config,
                     profiler_.host().Configure(metrics, kCalibrationPassesMax));
    ASSIGN_OR_RETURN(std::vector<CounterReading> readings,
                     profiler_.ReadSeveral(config, work, /*readings=*/1));
    const Quantities quantities = QuantitiesOf({group}, readings);
    return quantities.begin()->second;
  }

  absl::Status CountOperations(const Probe& probe) {
    const bool is_plain = probe.kernel == probe.ceiling;
    CalibrationEntry& entry =
        Add(is_plain ? probe.kernel
                     : absl::StrCat("tensor_", probe.kernel.substr(probe.kernel.find('_') + 1), "_",
                                    probe.kernel.substr(0, probe.kernel.find('_'))),
            probe.ceiling, /*tolerance=*/0);
    const MetricGroup group = GroupOf(probe.ceiling);
    entry.counter = absl::StrJoin(group.terms, " + ", [](std::string* out, const auto& term) {
      absl::StrAppend(out, term.weight == 1 ? "" : absl::StrCat(term.weight, " "), term.metric);
    });
    entry.expected = bench_.Work(probe, kRoundsLong) - bench_.Work(probe, kRoundsShort);
    double counts[2] = {};
    for (int i = 0; i < 2; ++i) {
      const int rounds = i == 0 ? kRoundsShort : kRoundsLong;
      ASSIGN_OR_RETURN(counts[i], Count(group, {.prepare = Nothing, .launch = [&, rounds] {
                                                  return bench_.Launch(probe, rounds);
                                                }}));
    }
    entries_.back().counted = counts[1] - counts[0];
    return absl::OkStatus();
  }

  absl::Status CountBytes(const std::string& name, const std::string& quantity, double expected,
                          const RangeProfiler::Work& work) {
    CalibrationEntry& entry = Add(name, quantity, kMemoryTolerance);
    entry.expected = expected;
    const MetricGroup group = GroupOf(quantity);
    if (!group.terms.empty()) entry.counter = group.terms[0].metric;
    absl::StatusOr<double> counted = Count(group, work);
    RETURN_IF_ERROR(Keep(counted.status()));
    if (counted.ok()) entries_.back().counted = *counted;
    return absl::OkStatus();
  }

  // The cache holds as much dirty data before the copy as after it, but none of the copy's input:
  // what is written meanwhile is what the copy writes.
  absl::Status CountCopy() {
    ASSIGN_OR_RETURN(DeviceMemory dirt,
                     DeviceMemory::Allocate(context_, 2 * static_cast<size_t>(context_.l2_bytes)));
    Probe copy;
    copy.ceiling = "dram_copy";
    copy.kernel = "copy_4";
    copy.shape = ProbeShape::kCopy;
    copy.threads = 512;
    copy.words_per_thread = 4;
    const RangeProfiler::Work work = {
        .prepare =
            [&] {
              return context_.Check(
                  context_.driver.cuMemsetD8Async(dirt.address(), 1, dirt.bytes(), context_.stream),
                  "cuMemsetD8Async");
            },
        .launch = [&] { return bench_.Launch(copy, 1); }};
    const double bytes = static_cast<double>(bench_.in().bytes());
    RETURN_IF_ERROR(CountBytes("dram_read", "dram_read", bytes, work));
    return CountBytes("dram_write", "dram_write", bytes, work);
  }

  // "Cold is cold": after the flush every byte comes from memory, and no dirty line is left to be
  // written back. The writes are compared with those of a kernel that would write as much.
  absl::Status CountColdRead(size_t bytes) {
    Probe read;
    read.ceiling = "dram_read";
    read.kernel = "read_4";
    read.shape = ProbeShape::kRead;
    read.threads = 256;
    read.words_per_thread = 4;
    const RangeProfiler::Work work = {
        .prepare = [&]() -> absl::Status {
          RETURN_IF_ERROR(
              context_.Check(context_.driver.cuMemsetD8Async(bench_.out().address(), 1,
                                                             static_cast<size_t>(context_.l2_bytes),
                                                             context_.stream),
                             "cuMemsetD8Async"));
          RETURN_IF_ERROR(bench_.LaunchPart(read, bytes));  // so that only the flush can evict it
          return harness_.FlushCache();
        },
        .launch = [&] { return bench_.LaunchPart(read, bytes); }};
    const std::string suffix = absl::StrCat("_", bytes >> 20, "m");
    RETURN_IF_ERROR(
        CountBytes("cold_read" + suffix, "dram_read", static_cast<double>(bytes), work));
    RETURN_IF_ERROR(
        CountBytes("cold_write" + suffix, "dram_write", static_cast<double>(bytes), work));
    // All bytes less those written: passes if at most 2 % of them were.
    CalibrationEntry& writes = entries_.back();
    if (writes.message.empty()) {
      writes.counted = writes.expected - writes.counted;
      writes.counter = absl::StrCat(static_cast<double>(bytes), " - ", writes.counter);
    }
    return absl::OkStatus();
  }

  const DeviceContext& context_;
  Harness& harness_;
  RangeProfiler& profiler_;
  ProbeBench& bench_;
  std::vector<CalibrationEntry> entries_;
};

}  // namespace

absl::StatusOr<std::vector<CalibrationEntry>> MeasureCalibration(const DeviceContext& context,
                                                                 Compiler& compiler,
                                                                 Harness& harness,
                                                                 RangeProfiler& profiler) {
  ASSIGN_OR_RETURN(ProbeBench bench, ProbeBench::Create(context, compiler, /*suite=*/true));
  Calibrator calibrator(context, harness, profiler, bench);
  RETURN_IF_ERROR(calibrator.Run());
  bench.Unload();
  return std::move(calibrator).entries();
}

}  // namespace tune::cuda
