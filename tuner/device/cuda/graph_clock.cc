// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/graph_clock.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/status_macros.h"

namespace tune::cuda {
namespace {

constexpr double kGraphNs = 2e6;
constexpr double kLaunchesMin = 8;
constexpr double kLaunchesMax = 2000;

// A graph of launches, with the events round it.
class LaunchGraph {
 public:
  explicit LaunchGraph(const DeviceContext& context) : context_(context) {}
  ~LaunchGraph() {
    const DriverApi& driver = context_.driver;
    if (executable_ != nullptr) driver.cuGraphExecDestroy(executable_);
    if (graph_ != nullptr) driver.cuGraphDestroy(graph_);
  }
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;

  absl::Status Build(const std::function<absl::Status()>& launch, int launches) {
    const DriverApi& driver = context_.driver;
    RETURN_IF_ERROR(context_.Check(
        driver.cuStreamBeginCapture(context_.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "cuStreamBeginCapture"));
    absl::Status captured;
    for (int i = 0; i < launches && captured.ok(); ++i) captured = launch();
    // The capture ends in any case: a stream that stays in one takes no more work.
    const CUresult ended = driver.cuStreamEndCapture(context_.stream, &graph_);
    RETURN_IF_ERROR(captured);
    RETURN_IF_ERROR(context_.Check(ended, "cuStreamEndCapture"));
    return context_.Check(driver.cuGraphInstantiateWithFlags(&executable_, graph_, 0),
                          "cuGraphInstantiateWithFlags");
  }

  // Nanoseconds of one launch of the graph, by the two events.
  absl::StatusOr<double> Launch(const std::array<CUevent, 2>& events) {
    const DriverApi& driver = context_.driver;
    RETURN_IF_ERROR(
        context_.Check(driver.cuEventRecord(events[0], context_.stream), "cuEventRecord"));
    RETURN_IF_ERROR(
        context_.Check(driver.cuGraphLaunch(executable_, context_.stream), "cuGraphLaunch"));
    RETURN_IF_ERROR(
        context_.Check(driver.cuEventRecord(events[1], context_.stream), "cuEventRecord"));
    RETURN_IF_ERROR(context_.Synchronize());
    float milliseconds = 0;
    RETURN_IF_ERROR(context_.Check(driver.cuEventElapsedTime(&milliseconds, events[0], events[1]),
                                   "cuEventElapsedTime"));
    return milliseconds * 1e6;
  }

 private:
  const DeviceContext& context_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

}  // namespace

int GraphLaunches(double estimate_ns) {
  const double wanted = std::ceil(kGraphNs / std::max(estimate_ns, 1.0));
  return static_cast<int>(std::clamp(wanted, kLaunchesMin, kLaunchesMax));
}

absl::StatusOr<double> TimeByGraph(const DeviceContext& context,
                                   const std::function<absl::Status()>& launch, int launches,
                                   int repeats) {
  std::array<CUevent, 2> events = {};
  for (CUevent& event : events) {  // as long as the process, like all of them
    RETURN_IF_ERROR(
        context.Check(context.driver.cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
  }
  LaunchGraph graph(context);
  RETURN_IF_ERROR(graph.Build(launch, launches));
  RETURN_IF_ERROR(graph.Launch(events).status());
  std::vector<double> graphs_ns;
  for (int i = 0; i < std::max(1, repeats); ++i) {
    ASSIGN_OR_RETURN(double graph_ns, graph.Launch(events));
    graphs_ns.push_back(graph_ns);
  }
  std::sort(graphs_ns.begin(), graphs_ns.end());
  return graphs_ns[graphs_ns.size() / 2] / launches;
}

}  // namespace tune::cuda
