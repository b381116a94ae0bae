// SPDX-License-Identifier: Apache-2.0
// The numbers of the gate and the formulas between them. docs/gate.md says what they promise.
#pragma once

#include "base/fields.h"

namespace tune::gate {

struct Rules {
  // A kernel this much slower is tolerated: a true change of delta0 fails in at most `alpha` of
  // the runs.
  double delta0 = 0.01;
  // A kernel passes when its slowdown is below this with 97.5 % certainty.
  double delta_max = 0.05;
  // The chance that any kernel of an unchanged run fails is at most this.
  double alpha = 0.01;
  int screen_rounds = 5;
  // Beyond this round deviation a kernel is not guarded: slowdowns below 5 % may go unseen.
  double guarded_deviation_max = 0.028;
  // Between the paired legs of a round, unless the power cap explains it.
  double clock_difference_max = 0.03;
};
TUNE_FIELDS(Rules, delta0, delta_max, alpha, screen_rounds, guarded_deviation_max,
            clock_difference_max);

// Fresh rounds that decide about `flagged` kernels: as many as the least p of the test needs, and
// six more for its power. clamp(ceil(log2(flagged / alpha)) + 6, 15, 24).
int ConfirmRounds(int flagged, double alpha);

// The slowdown that is failed in 95 % of the runs, for a round deviation and so many flagged
// kernels: delta0 + e95(flagged) * deviation. e95 by simulation, see
// bench/micro/gate_characteristics.cc; the normal formula is 5 to 30 % too good here.
double LeastCaught(const Rules& rules, int flagged, double deviation);

}  // namespace tune::gate
