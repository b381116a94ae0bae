// SPDX-License-Identifier: Apache-2.0
// The kernels of ceilings.cu, loaded, with the arrays that they work on.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/device/compiler.h"
#include "tuner/device/cuda/device_context.h"
#include "tuner/device/cuda/probe.h"
#include "tuner/plan.h"

namespace tune::cuda {

// How ceilings.cu is compiled, so that a test without a GPU can.
CompilePlan CeilingsCompilePlan(const std::string& target, bool suite);

// Not thread-safe. Unload when done: it holds up to 6 GiB.
class ProbeBench {
 public:
  static absl::StatusOr<ProbeBench> Create(const DeviceContext& context, Compiler& compiler,
                                           bool suite);
  ProbeBench(ProbeBench&& other) noexcept = default;

  // The fastest of a few launches, after one that does not count: bytes or FLOPs a second. The
  // launches take milliseconds, so power limits have little time to act; in the suite tensor cores
  // are measured in several bursts, each after a rest.
  absl::StatusOr<double> Measure(const Probe& probe);
  // The median over the last fifth of `seconds` of launches without a pause.
  absl::StatusOr<double> MeasureSustained(const Probe& probe, double seconds);

  // Enqueues one launch.
  absl::Status Launch(const Probe& probe, int rounds);
  // Launches over the first `bytes` of the arrays. REQUIRES: the grid of the probe covers the
  // array, and the bytes are a multiple of what a block takes.
  absl::Status LaunchPart(const Probe& probe, size_t bytes);
  // Bytes or FLOPs of one launch.
  double Work(const Probe& probe, int rounds) const;
  // INTERNAL if the last copy did not copy.
  absl::Status CheckCopy();

  CUfunction empty() const { return empty_; }
  const DeviceMemory& in() const { return in_; }
  const DeviceMemory& out() const { return out_; }

  void Unload();

 private:
  explicit ProbeBench(const DeviceContext& context) : context_(&context) {}
  absl::Status Load(Compiler& compiler);
  absl::Status Allocate();
  absl::StatusOr<CUfunction> Find(const std::string& kernel) const;
  absl::Status LaunchFunction(CUfunction function, unsigned blocks, unsigned threads,
                              void** arguments) const;
  absl::Status LaunchMemory(const Probe& probe, CUfunction function, size_t bytes);
  absl::Status LaunchRounds(const Probe& probe, CUfunction function, int rounds);
  // Seconds of one launch.
  absl::StatusOr<double> Time(const Probe& probe, int rounds);
  // Rounds that make a launch long enough for the launch itself not to matter; 1 where there are
  // none.
  absl::StatusOr<int> ChooseRounds(const Probe& probe);

  const DeviceContext* context_;
  bool suite_ = false;
  CUmodule module_ = nullptr;
  CUfunction empty_ = nullptr;
  std::array<CUevent, 2> events_ = {};
  DeviceMemory in_;
  DeviceMemory out_;
  DeviceMemory third_;  // of the suite
};

}  // namespace tune::cuda
