// SPDX-License-Identifier: Apache-2.0
// Checks what a client wants gated before anything is stored or started.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "server/devices/devices.h"
#include "server/kernels/catalogue.h"
#include "tune/v1/gate.pb.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

struct GateSide {
  NamedKernel named;
  Problem problem;

  const Kernel& kernel() const { return *named.kernel; }
};

// One kernel of a run.
struct GateSubject {
  std::optional<GateSide> base;  // nothing for the history
  GateSide head;
  double tolerance = -1;  // negative: the run's
};

struct GatePlan {
  db::GateRunRow run;                   // without what only the opened device tells
  std::string name_space;               // of its kernels, which whoever asks has brought
  std::vector<std::string> device_ids;  // that it may run on, the preferred first
  std::vector<GateSubject> subjects;
  double leg_seconds = 0;  // 0: the default of the device

  size_t SourceBytes() const;  // of the kernels of both sides
};

inline constexpr int kGateKernelsMax = 1000;

// Waits until the devices are known, at most until `deadline`. Every kernel, also one of a
// baseline, runs as one of `name_space`, which is the caller's.
absl::StatusOr<GatePlan> CheckGate(const v1::SubmitGateRequest& request, db::Store& store,
                                   const Devices& devices, absl::Time deadline,
                                   const Cancelled& cancelled, const std::string& name_space = "");

}  // namespace tune::server
