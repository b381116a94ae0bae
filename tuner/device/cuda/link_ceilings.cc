// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/link_ceilings.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/cuda/graph_clock.h"
#include "tuner/statistics/median.h"

namespace tune::cuda {
namespace {

constexpr size_t kLinkBytesMax = size_t{256} << 20;
constexpr int kLinkRepeats = 4;
constexpr int kLaunches = 64;
constexpr int kGraphRepeats = 9;

Ceiling LaunchCeiling(const char* name, double ns, const char* probe) {
  return {.name = name,
          .value = ns,
          .source = CeilingSource::kMeasured,
          .kind = CeilingKind::kLaunch,
          .probe = probe};
}

// Bytes a second of the fastest copy, after one that does not count.
template <typename Copy>
absl::StatusOr<double> CopyRate(const DeviceContext& context, size_t bytes, const Copy& copy) {
  double best = 0;
  for (int i = 0; i <= kLinkRepeats; ++i) {
    RETURN_IF_ERROR(context.Synchronize());
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(copy());
    RETURN_IF_ERROR(context.Synchronize());
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (i > 0) best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

absl::Status AddLinks(const DeviceContext& context, const DeviceMemory& memory, void* host,
                      size_t bytes, const std::string& suffix, std::vector<Ceiling>& links) {
  const DriverApi& driver = context.driver;
  const auto add = [&](const char* name, double rate) {
    links.push_back({.name = absl::StrCat(name, suffix),
                     .value = rate,
                     .source = CeilingSource::kMeasured,
                     .kind = CeilingKind::kLink,
                     .probe = absl::StrCat(bytes >> 20, " MiB")});
  };
  ASSIGN_OR_RETURN(double to_device, CopyRate(context, bytes, [&] {
                     return context.Check(
                         driver.cuMemcpyHtoDAsync(memory.address(), host, bytes, context.stream),
                         "cuMemcpyHtoDAsync");
                   }));
  add("link_h2d", to_device);
  ASSIGN_OR_RETURN(double to_host, CopyRate(context, bytes, [&] {
                     return context.Check(
                         driver.cuMemcpyDtoHAsync(host, memory.address(), bytes, context.stream),
                         "cuMemcpyDtoHAsync");
                   }));
  add("link_d2h", to_host);
  return absl::OkStatus();
}

absl::StatusOr<double> LaunchByEvents(const DeviceContext& context,
                                      const std::function<absl::Status()>& launch) {
  const DriverApi& driver = context.driver;
  std::array<CUevent, 2> events = {};
  for (CUevent& event : events) {
    RETURN_IF_ERROR(context.Check(driver.cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
  }
  std::vector<double> times_ns;
  for (int i = 0; i < kLaunches; ++i) {
    RETURN_IF_ERROR(
        context.Check(driver.cuEventRecord(events[0], context.stream), "cuEventRecord"));
    RETURN_IF_ERROR(launch());
    RETURN_IF_ERROR(
        context.Check(driver.cuEventRecord(events[1], context.stream), "cuEventRecord"));
    RETURN_IF_ERROR(context.Synchronize());
    float milliseconds = 0;
    RETURN_IF_ERROR(context.Check(driver.cuEventElapsedTime(&milliseconds, events[0], events[1]),
                                  "cuEventElapsedTime"));
    times_ns.push_back(milliseconds * 1e6);
  }
  return MedianOf(std::move(times_ns));
}

}  // namespace

absl::StatusOr<std::vector<Ceiling>> MeasureLinks(const DeviceContext& context,
                                                  const DeviceMemory& memory) {
  const size_t bytes = std::min(kLinkBytesMax, memory.bytes());
  std::vector<Ceiling> links;
  void* pinned = nullptr;
  RETURN_IF_ERROR(context.Check(context.driver.cuMemAllocHost(&pinned, bytes), "cuMemAllocHost"));
  const absl::Status measured = AddLinks(context, memory, pinned, bytes, "", links);
  context.driver.cuMemFreeHost(pinned);
  RETURN_IF_ERROR(measured);
  std::vector<char> pageable(bytes);
  RETURN_IF_ERROR(AddLinks(context, memory, pageable.data(), bytes, "_pageable", links));
  return links;
}

absl::StatusOr<std::vector<Ceiling>> MeasureLaunches(const DeviceContext& context,
                                                     const ProbeBench& bench,
                                                     ActivityClock* activity) {
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = context.stream;
  const auto launch = [&] {
    return context.Check(context.driver.cuLaunchKernelEx(&config, bench.empty(), nullptr, nullptr),
                         "cuLaunchKernelEx");
  };
  std::vector<Ceiling> launches;
  if (activity != nullptr) {
    RETURN_IF_ERROR(activity->Clear());
    for (int i = 0; i < kLaunches; ++i) RETURN_IF_ERROR(launch());
    RETURN_IF_ERROR(context.Synchronize());
    absl::StatusOr<std::vector<double>> times_ns = activity->Collect(kLaunches);
    // A lost record costs this figure and nothing else.
    if (times_ns.ok()) {
      launches.push_back(
          LaunchCeiling("launch", MedianOf(*std::move(times_ns)), "empty kernel, CUPTI"));
    }
  }
  ASSIGN_OR_RETURN(double events_ns, LaunchByEvents(context, launch));
  launches.push_back(LaunchCeiling("launch_events", events_ns, "empty kernel, events"));
  ASSIGN_OR_RETURN(double graph_ns, TimeByGraph(context, launch, kLaunches, kGraphRepeats));
  launches.push_back(
      LaunchCeiling("launch_graph", graph_ns, "empty kernel, events round a graph of 64"));
  return launches;
}

}  // namespace tune::cuda
