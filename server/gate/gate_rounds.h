// SPDX-License-Identifier: Apache-2.0
// The rounds of a gate: two twins of a session, one for each revision, hold the same problem and
// are asked by turns.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/leg.h"
#include "server/measure/session.h"
#include "tuner/gate/round.h"

namespace tune::server {

// Not thread-safe.
class GateRounds {
 public:
  // The session must outlive the rounds; its twins are the base and the head.
  GateRounds(Session& session, const SamplePolicy& policy, uint64_t seed)
      : session_(session), policy_(policy), random_(seed) {}

  // Two fresh processes. `pair`: false starts only the head's.
  absl::Status Renew(bool pair);

  struct Outcome {
    std::vector<db::LegRow> legs;  // in order; job, kernel, purpose and round are for the caller
    std::string fault;             // the variant's own: it cannot be measured at all
  };
  // ABBA or BAAB, at random; without a base the head twice. A non-OK status: the device is lost.
  absl::StatusOr<Outcome> MeasureRound(const Variant* base, const Variant& head);

 private:
  using Side = gate::Revision;
  // A sentence about the variant if it cannot be prepared; empty if it can.
  absl::StatusOr<std::string> Prepare(Side side, const Variant& variant, uint64_t seed);
  // False: the round is over.
  absl::StatusOr<bool> MeasureLeg(Side side, const Variant& variant, Outcome& outcome);

  Session& session_;
  const SamplePolicy policy_;
  std::mt19937_64 random_;
};

}  // namespace tune::server
