// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/ceilings.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/cuda/link_ceilings.h"
#include "tuner/device/cuda/probe.h"
#include "tuner/device/cuda/probe_bench.h"

namespace tune::cuda {
namespace {

// Clocks and counters have errors of their own.
constexpr double kBelievable = 1.01;

absl::StatusOr<DeviceFigures> FiguresOf(const DeviceContext& context) {
  DeviceFigures figures{.sm = context.sm, .sm_count = context.sm_count};
  const std::pair<CUdevice_attribute, double*> attributes[] = {
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &figures.sm_clock_hz},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &figures.memory_clock_hz},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &figures.memory_bus_bits},
  };
  for (const auto& [attribute, value] : attributes) {
    int read = 0;
    RETURN_IF_ERROR(
        context.Check(context.driver.cuDeviceGetAttribute(&read, attribute, context.device),
                      "cuDeviceGetAttribute"));
    *value = read;
  }
  figures.sm_clock_hz *= 1e3;
  figures.memory_clock_hz *= 1e3;
  return figures;
}

// The best figure of each ceiling so far, and the probe that reached it.
class Best {
 public:
  explicit Best(const DeviceFigures& figures) : figures_(figures) {}

  // A figure above what the device is built for is a mistake of the measurement, and not taken.
  void Offer(const Probe& probe, double value) {
    const double theoretical = TheoreticalOf(probe.ceiling, figures_);
    if (theoretical > 0 && value > kBelievable * theoretical) return;
    auto [it, is_new] = ceilings_.try_emplace(probe.ceiling);
    if (is_new) order_.push_back(probe.ceiling);
    if (!is_new && it->second.value >= value) return;
    it->second = {.name = probe.ceiling,
                  .value = value,
                  .source = CeilingSource::kMeasured,
                  .kind = probe.kind,
                  .probe = probe.Text(),
                  .theoretical = theoretical};
    probes_[probe.ceiling] = probe;
  }

  std::vector<Ceiling> Ceilings() const {
    std::vector<Ceiling> ceilings;
    for (const std::string& name : order_) ceilings.push_back(ceilings_.at(name));
    return ceilings;
  }
  // The probe that reached a ceiling, or null if none did.
  const Probe* ProbeOf(const std::string& ceiling) const {
    const auto it = probes_.find(ceiling);
    return it == probes_.end() ? nullptr : &it->second;
  }

 private:
  DeviceFigures figures_;
  std::map<std::string, Ceiling> ceilings_;
  std::map<std::string, Probe> probes_;
  std::vector<std::string> order_;
};

absl::Status RunProbes(const DeviceContext& context, bool suite, ProbeBench& bench, Best& best) {
  for (const Probe& probe : ProbesFor(context.sm, suite)) {
    ASSIGN_OR_RETURN(double value, bench.Measure(probe));
    if (probe.shape == ProbeShape::kBulkCopy) RETURN_IF_ERROR(bench.CheckCopy());
    best.Offer(probe, value);
  }
  return absl::OkStatus();
}

absl::Status AddSustained(ProbeBench& bench, const Best& best, TelemetrySource& telemetry,
                          double seconds, std::vector<Ceiling>& ceilings) {
  std::vector<Ceiling> sustained;
  for (const Ceiling& burst : ceilings) {
    const Probe* probe = best.ProbeOf(burst.name);
    const bool computes = burst.kind == CeilingKind::kVector || burst.kind == CeilingKind::kTensor;
    if (!computes || probe == nullptr) continue;
    Ceiling ceiling = burst;
    ceiling.name += "_sustained";
    ceiling.policy = CeilingPolicy::kSustained;
    ASSIGN_OR_RETURN(ceiling.value, bench.MeasureSustained(*probe, seconds));
    ceiling.telemetry = telemetry.Read();
    ceiling.note = absl::StrCat("after ", seconds, " s of load");
    sustained.push_back(std::move(ceiling));
  }
  ceilings.insert(ceilings.end(), sustained.begin(), sustained.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Ceiling>> MeasureCeilings(const DeviceContext& context,
                                                     Compiler& compiler) {
  ASSIGN_OR_RETURN(DeviceFigures figures, FiguresOf(context));
  ASSIGN_OR_RETURN(ProbeBench bench, ProbeBench::Create(context, compiler, /*suite=*/false));
  Best best(figures);
  RETURN_IF_ERROR(RunProbes(context, /*suite=*/false, bench, best));
  bench.Unload();
  return best.Ceilings();
}

absl::StatusOr<std::vector<Ceiling>> MeasureCeilingSuite(const DeviceContext& context,
                                                         Compiler& compiler,
                                                         ActivityClock* activity,
                                                         TelemetrySource& telemetry,
                                                         double sustained_seconds) {
  ASSIGN_OR_RETURN(DeviceFigures figures, FiguresOf(context));
  ASSIGN_OR_RETURN(ProbeBench bench, ProbeBench::Create(context, compiler, /*suite=*/true));
  Best best(figures);
  RETURN_IF_ERROR(RunProbes(context, /*suite=*/true, bench, best));
  std::vector<Ceiling> ceilings = best.Ceilings();
  const Telemetry burst = telemetry.Read();
  for (Ceiling& ceiling : ceilings) ceiling.telemetry = burst;
  ASSIGN_OR_RETURN(std::vector<Ceiling> launches, MeasureLaunches(context, bench, activity));
  ASSIGN_OR_RETURN(std::vector<Ceiling> links, MeasureLinks(context, bench.in()));
  ceilings.insert(ceilings.end(), launches.begin(), launches.end());
  ceilings.insert(ceilings.end(), links.begin(), links.end());
  if (sustained_seconds > 0) {
    RETURN_IF_ERROR(AddSustained(bench, best, telemetry, sustained_seconds, ceilings));
  }
  bench.Unload();
  return ceilings;
}

}  // namespace tune::cuda
