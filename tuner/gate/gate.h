// SPDX-License-Identifier: Apache-2.0
// The gate's decision whether a change made a kernel slower. It does no measuring itself: the
// caller adds rounds, asks which kernels need another one, and in the end gets a verdict on every
// kernel. The same rounds give the same verdicts, so a verdict can be recomputed from stored
// rounds.
//
// Every kernel is screened with a few rounds. Kernels whose mean is beyond the tolerance are
// flagged, and only they are measured again: fresh rounds, which the screening has not chosen, go
// into one exact signed-rank test at alpha / (number flagged). So the chance that any kernel of an
// unchanged run fails is at most alpha, whatever the noise, as long as its differences are
// symmetric.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tuner/gate/round.h"
#include "tuner/gate/rules.h"

namespace tune::gate {

// Values are stored: do not renumber.
enum class Verdict {
  kNone = 0,  // of rounds that nothing is decided by; not stored
  kPass = 1,
  kFail = 2,
  kInconclusive = 3,
  kUnguarded = 4,
  kInvalid = 5,
  kIdentical = 6,
};

std::string ToText(Verdict verdict);  // "PASS", ...

struct Judgement {
  Verdict verdict = Verdict::kInvalid;
  std::string reason;  // one sentence where the verdict alone does not say it
  double ratio = 1;    // head over base; above 1 is slower
  double ratio_low = 1;
  double ratio_high = 1;       // 95 % interval (t) of the rounds that decided
  double deviation = 0;        // of a round's log ratio
  double least_caught = 0;     // the slowdown that would have failed in 95 % of the runs
  int rounds = 0;              // that decided: of the confirmation, if there was one
  int invalid_rounds = 0;      // left out
  bool flagged = false;        // the screening saw a slowdown
  bool improved = false;       // confirmed faster: reported, never gating
  double p = 1;                // of the confirmation; 1 without one
  double p_needed = 0;         // alpha / flagged
  double clock_log_ratio = 0;  // of the processor clock, head over base; 0 if unknown
  double autocorrelation = 0;  // lag 1, of the rounds that decided
  bool bimodal = false;        // either revision's times fall in two groups
};
TUNE_FIELDS(Judgement, verdict, reason, ratio, ratio_low, ratio_high, deviation, least_caught,
            rounds, invalid_rounds, flagged, improved, p, p_needed, clock_log_ratio,
            autocorrelation, bimodal);

// Not thread-safe.
class Gate {
 public:
  // `tolerances` has one entry a kernel: its own delta0, or a negative number for the rules'.
  Gate(const Rules& rules, const std::vector<double>& tolerances);

  // Instead of rounds: nothing to measure, or nothing that could be.
  void SetIdentical(size_t kernel);
  void SetInvalid(size_t kernel, const std::string& reason);

  // The kernels that want another round, all in the stage that `stage` gives. Empty: decided.
  std::vector<size_t> Wanted() const;
  Stage stage() const { return stage_; }
  // REQUIRES: the kernel is wanted.
  void Add(size_t kernel, const RoundResult& round);

  // REQUIRES: nothing is wanted.
  Judgement Judge(size_t kernel) const;
  int flagged() const { return slower_; }
  // Rounds that the confirmation of a kernel takes; 0 if it is not flagged.
  int confirm_rounds(size_t kernel) const;

 private:
  enum class Direction { kNone, kSlower, kFaster };
  struct Kernel {
    double delta0 = 0;
    bool identical = false;
    std::string invalid;
    Direction direction = Direction::kNone;
    std::vector<RoundResult> screened;
    std::vector<RoundResult> confirmed;
    int invalid_rounds = 0;  // of the stage
    int invalid_total = 0;
  };

  int RoundsOf(const Kernel& kernel) const;  // that the stage takes
  bool Wants(const Kernel& kernel) const;
  void Advance();
  void EndScreening();
  void Confirm(const Kernel& kernel, Judgement& judgement) const;
  void Estimate(const Kernel& kernel, Judgement& judgement) const;

  const Rules rules_;
  std::vector<Kernel> kernels_;
  Stage stage_ = Stage::kScreen;
  bool done_ = false;
  int slower_ = 0;
  int faster_ = 0;
};

}  // namespace tune::gate
