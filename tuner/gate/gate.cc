// SPDX-License-Identifier: Apache-2.0
#include "tuner/gate/gate.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tuner/statistics/series.h"
#include "tuner/statistics/signed_rank.h"

namespace tune::gate {
namespace {

// A stage may lose as many rounds as this to a throttled device and the like; then the kernel's
// environment is not one to measure in.
constexpr int kInvalidRoundsMax = 3;
// Times are not known more finely than this, so two groups closer together are not two.
constexpr double kLeastSpread = 2e-4;
// The share of a slowdown that must be there in cycles too.
constexpr double kShareInCycles = 0.5;

std::vector<double> LogRatios(const std::vector<RoundResult>& rounds) {
  std::vector<double> values;
  values.reserve(rounds.size());
  for (const RoundResult& round : rounds) values.push_back(round.log_ratio);
  return values;
}

double MeanLogRatio(const std::vector<RoundResult>& rounds) {
  double sum = 0;
  for (const RoundResult& round : rounds) sum += round.log_ratio;
  return sum / static_cast<double>(rounds.size());
}

bool IsBimodalIn(const std::vector<RoundResult>& rounds, double RoundResult::*side) {
  std::vector<double> values;
  for (const RoundResult& round : rounds) values.push_back(round.*side);
  return IsBimodal(std::move(values), kLeastSpread);
}

// Mean log ratio in cycles; nothing if any round is without.
std::optional<double> MeanCycles(const std::vector<RoundResult>& rounds) {
  double sum = 0;
  for (const RoundResult& round : rounds) {
    if (!round.cycle_log_ratio) return std::nullopt;
    sum += *round.cycle_log_ratio;
  }
  if (rounds.empty()) return std::nullopt;
  return sum / static_cast<double>(rounds.size());
}

}  // namespace

std::string ToText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNone:
      return "NONE";
    case Verdict::kPass:
      return "PASS";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kInconclusive:
      return "INCONCLUSIVE";
    case Verdict::kUnguarded:
      return "UNGUARDED";
    case Verdict::kInvalid:
      return "INVALID";
    case Verdict::kIdentical:
      return "IDENTICAL";
  }
  return "?";
}

Gate::Gate(const Rules& rules, const std::vector<double>& tolerances)
    : rules_(rules), kernels_(tolerances.size()) {
  for (size_t i = 0; i < kernels_.size(); ++i) {
    kernels_[i].delta0 = tolerances[i] < 0 ? rules.delta0 : tolerances[i];
  }
  Advance();
}

void Gate::SetIdentical(size_t kernel) {
  kernels_[kernel].identical = true;
  Advance();
}

void Gate::SetInvalid(size_t kernel, const std::string& reason) {
  kernels_[kernel].invalid = reason;
  Advance();
}

int Gate::RoundsOf(const Kernel& kernel) const {
  if (stage_ == Stage::kScreen) return rules_.screen_rounds;
  if (kernel.direction == Direction::kSlower) return ConfirmRounds(slower_, rules_.alpha);
  if (kernel.direction == Direction::kFaster) return ConfirmRounds(faster_, rules_.alpha);
  return 0;
}

int Gate::confirm_rounds(size_t kernel) const {
  return stage_ == Stage::kConfirm ? RoundsOf(kernels_[kernel]) : 0;
}

bool Gate::Wants(const Kernel& kernel) const {
  if (kernel.identical || !kernel.invalid.empty()) return false;
  const auto& rounds = stage_ == Stage::kScreen ? kernel.screened : kernel.confirmed;
  return static_cast<int>(rounds.size()) < RoundsOf(kernel);
}

std::vector<size_t> Gate::Wanted() const {
  std::vector<size_t> wanted;
  if (done_) return wanted;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (Wants(kernels_[i])) wanted.push_back(i);
  }
  return wanted;
}

void Gate::Add(size_t index, const RoundResult& round) {
  Kernel& kernel = kernels_[index];
  if (round.invalid.empty()) {
    (stage_ == Stage::kScreen ? kernel.screened : kernel.confirmed).push_back(round);
  } else {
    ++kernel.invalid_total;
    if (++kernel.invalid_rounds > kInvalidRoundsMax) kernel.invalid = round.invalid;
  }
  if (!Wants(kernel)) Advance();
}

void Gate::Advance() {
  const auto wants = [this](const Kernel& kernel) { return Wants(kernel); };
  if (done_ || std::any_of(kernels_.begin(), kernels_.end(), wants)) return;
  if (stage_ == Stage::kScreen) EndScreening();
  done_ = std::none_of(kernels_.begin(), kernels_.end(), wants);
}

void Gate::EndScreening() {
  stage_ = Stage::kConfirm;
  for (Kernel& kernel : kernels_) {
    kernel.invalid_rounds = 0;
    if (kernel.identical || !kernel.invalid.empty() || kernel.screened.empty()) continue;
    const double mean = MeanLogRatio(kernel.screened);
    const double tolerance = std::log1p(kernel.delta0);
    if (mean > tolerance) {
      kernel.direction = Direction::kSlower;
      ++slower_;
    } else if (mean < -tolerance) {
      kernel.direction = Direction::kFaster;
      ++faster_;
    }
  }
}

void Gate::Estimate(const Kernel& kernel, Judgement& judgement) const {
  const auto& rounds = kernel.confirmed.empty() ? kernel.screened : kernel.confirmed;
  if (rounds.empty()) return;
  const std::vector<double> log_ratios = LogRatios(rounds);
  const MeanInterval interval = EstimateMean(log_ratios);
  judgement.ratio = std::exp(interval.mean);
  judgement.ratio_low = std::exp(interval.low);
  judgement.ratio_high = std::exp(interval.high);
  judgement.deviation = StandardDeviation(log_ratios);
  judgement.rounds = static_cast<int>(rounds.size());
  Rules rules = rules_;
  rules.delta0 = kernel.delta0;
  // A kernel that was not flagged would have been one more.
  const int flagged = slower_ + (kernel.direction == Direction::kSlower ? 0 : 1);
  judgement.least_caught = LeastCaught(rules, flagged, judgement.deviation);
  judgement.autocorrelation = Lag1Autocorrelation(log_ratios);
  if (const std::optional<double> cycles = MeanCycles(rounds)) {
    judgement.clock_log_ratio = *cycles - interval.mean;
  }
  std::vector<RoundResult> all = kernel.screened;
  std::copy(kernel.confirmed.begin(), kernel.confirmed.end(), std::back_inserter(all));
  judgement.bimodal =
      IsBimodalIn(all, &RoundResult::base_log) || IsBimodalIn(all, &RoundResult::head_log);
}

// Sets the verdict where the confirmation decides it, or `improved`.
void Gate::Confirm(const Kernel& kernel, Judgement& judgement) const {
  const bool slower = kernel.direction == Direction::kSlower;
  const double sign = slower ? 1 : -1;
  const double tolerance = std::log1p(kernel.delta0);
  std::vector<double> beyond;
  for (const RoundResult& round : kernel.confirmed) {
    beyond.push_back(sign * round.log_ratio - tolerance);
  }
  judgement.p = SignedRankP(beyond);
  judgement.p_needed = rules_.alpha / (slower ? slower_ : faster_);
  if (judgement.p > judgement.p_needed) return;
  const std::optional<double> cycles = MeanCycles(kernel.confirmed);
  const double mean = MeanLogRatio(kernel.confirmed);
  const bool in_cycles = !cycles || sign * *cycles >= kShareInCycles * sign * mean;
  if (!slower) {
    judgement.improved = in_cycles;
    return;
  }
  if (in_cycles) {
    judgement.verdict = Verdict::kFail;
    return;
  }
  judgement.verdict = Verdict::kInconclusive;
  judgement.reason = absl::StrFormat(
      "clock: slower in time but not in cycles; the processor ran at %.1f %% of the base's clock",
      100 * std::exp(judgement.clock_log_ratio));
}

Judgement Gate::Judge(size_t index) const {
  const Kernel& kernel = kernels_[index];
  Judgement judgement;
  judgement.invalid_rounds = kernel.invalid_total;
  if (kernel.identical) {
    judgement.verdict = Verdict::kIdentical;
    return judgement;
  }
  Estimate(kernel, judgement);
  judgement.flagged = kernel.direction == Direction::kSlower;
  if (!kernel.invalid.empty()) {
    judgement.verdict = Verdict::kInvalid;
    judgement.reason = kernel.invalid;
    return judgement;
  }
  judgement.verdict = Verdict::kPass;
  if (kernel.direction != Direction::kNone) Confirm(kernel, judgement);
  if (judgement.verdict != Verdict::kPass) return judgement;
  if (judgement.deviation > rules_.guarded_deviation_max) {
    judgement.verdict = Verdict::kUnguarded;
    judgement.reason =
        absl::StrFormat("rounds differ by %.1f %%, more than the %.1f %% that the promise covers",
                        100 * judgement.deviation, 100 * rules_.guarded_deviation_max);
  } else if (judgement.ratio_high >= 1 + rules_.delta_max) {
    judgement.verdict = Verdict::kInconclusive;
    judgement.reason = absl::StrFormat("may be %.1f %% slower; the limit is %.1f %%",
                                       100 * (judgement.ratio_high - 1), 100 * rules_.delta_max);
  }
  return judgement;
}

}  // namespace tune::gate
