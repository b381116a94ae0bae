// SPDX-License-Identifier: Apache-2.0
// Synthetic gate runs: the shipped decision on rounds drawn from a noise model. The same seed gives
// the same run.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tuner/gate/gate.h"
#include "tuner/gate/round.h"
#include "tuner/gate/rules.h"

namespace tune::gate {

// log t = revision + process(revision, round) + drift(time) + leg
struct NoiseModel {
  enum class Kind { kNormal, kStudent3 };
  Kind kind = Kind::kNormal;
  double round_deviation = 0.0071;  // of the difference of two processes
  double leg_deviation = 0;
  // A share of the processes is slower by this: another placement in memory, say.
  double slow_mode = 0;
  double slow_mode_share = 0;
  // Drift over the whole session, from the first leg of a stage to its last.
  double linear_drift = 0;
  double sine_drift = 0;  // amplitude; seven and a half periods a session
  double bad_round = 0;   // one round of the stage is slower by this, in the head alone
  double missing_leg_share = 0;
};

// Deliberate mistakes, to show that the tests would detect them.
enum class Mistake {
  kNone,
  kForgetDivision,  // alpha instead of alpha / flagged
  kPoolOnePair,     // all rounds from one pair of processes
  kNoAlternation,   // all legs of the base first, then all of the head
  kReuseScreening,  // the screening's rounds count in the confirmation too
};

struct RunCounts {
  int failed = 0;
  int flagged = 0;
  int improved = 0;
  std::vector<Verdict> verdicts;
};

class Simulation {
 public:
  Simulation(const NoiseModel& model, uint64_t seed) : model_(model), random_(seed) {}

  // Simulates a gate run over kernels with these true changes (0.02: 2 % slower).
  RunCounts Run(const std::vector<double>& effects, Mistake mistake = Mistake::kNone);
  // How many of `runs` runs had a failure at all.
  int RunsThatFail(const std::vector<double>& effects, int runs, Mistake mistake = Mistake::kNone);

 private:
  double Process();
  double Drift(double time) const;  // time in 0..1 of the stage
  RoundResult Round(double effect, int round, int rounds, Mistake mistake);
  RunCounts RunApart(const std::vector<double>& effects);

  const NoiseModel model_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  // The one pair of processes for kPoolOnePair.
  double pair_base_ = 0;
  double pair_head_ = 0;
};

}  // namespace tune::gate
