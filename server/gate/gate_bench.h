// SPDX-License-Identifier: Apache-2.0
// Where a round is measured: two worker processes of one device, one for each revision, both
// holding the problem, asked by turns.
#pragma once

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/gate.h"
#include "server/supervision/compilers.h"
#include "server/supervision/device_supervisor.h"
#include "tuner/gate/round.h"

namespace tune::server {

// What one revision of a kernel runs.
struct GateVariant {
  ProblemPlan problem;
  std::string reference_binary;
  ProgramPlan plan;
  std::string binary;
};

// Not thread-safe. The caller has the device's turn.
class GateBench {
 public:
  // `device` and `compilers` must outlive the bench.
  GateBench(const DeviceSupervisor& device, const Compilers& compilers, const SamplePolicy& policy,
            uint64_t seed, const Cancelled& cancelled);

  // Two fresh processes. `pair`: false starts only the head's.
  absl::Status Renew(bool pair);
  void Close();

  struct Outcome {
    std::vector<db::GateLegRow> legs;  // in order; stage, round and kernel are for the caller
    std::string fault;                 // the variant's own: it cannot be measured at all
  };
  // ABBA or BAAB, at random; without a base the head twice. A non-OK status: the device is lost.
  absl::StatusOr<Outcome> MeasureRound(const GateVariant* base, const GateVariant& head);

 private:
  using Side = gate::Revision;
  DeviceSupervisor& SupervisorOf(Side side) { return *supervisors_[side == Side::kBase ? 0 : 1]; }
  // A sentence about the variant where it cannot be prepared; empty if it can.
  absl::StatusOr<std::string> Prepare(Side side, const GateVariant& variant, uint64_t seed);
  // False: the round is over.
  absl::StatusOr<bool> MeasureLeg(Side side, const GateVariant& variant, Outcome& outcome);

  const std::array<std::unique_ptr<DeviceSupervisor>, 2> supervisors_;
  const Compilers& compilers_;
  const SamplePolicy policy_;
  const Cancelled& cancelled_;
  std::mt19937_64 random_;
};

}  // namespace tune::server
