// SPDX-License-Identifier: Apache-2.0
#include "tests/tuner/gate/simulation.h"

#include <algorithm>
#include <array>
#include <numbers>
#include <tuple>
#include <utility>

namespace tune::gate {
namespace {

constexpr double kDegrees = 3;
constexpr double kSinePeriods = 7.5;

}  // namespace

double Simulation::Process() {
  const double deviation = model_.round_deviation / std::numbers::sqrt2;
  double value = normal_(random_);
  if (model_.kind == NoiseModel::Kind::kStudent3) {
    double squares = 0;
    for (int i = 0; i < 3; ++i) {
      const double draw = normal_(random_);
      squares += draw * draw;
    }
    value /= std::sqrt(squares / kDegrees);
    value /= std::sqrt(kDegrees / (kDegrees - 2));  // to a deviation of one
  }
  value *= deviation;
  if (model_.slow_mode_share > 0 &&
      std::generate_canonical<double, 53>(random_) < model_.slow_mode_share) {
    value += std::log1p(model_.slow_mode);
  }
  return value;
}

double Simulation::Drift(double time) const {
  return model_.linear_drift * time +
         model_.sine_drift * std::sin(2 * std::numbers::pi * kSinePeriods * time);
}

RoundResult Simulation::Round(double effect, int round, int rounds, Mistake mistake) {
  const bool pooled = mistake == Mistake::kPoolOnePair;
  const double base = pooled ? pair_base_ : Process();
  double head = (pooled ? pair_head_ : Process()) + std::log1p(effect);
  if (model_.bad_round > 0 && round == rounds / 2) head += model_.bad_round;
  const bool mirrored = (random_() & 1) != 0;
  std::array<double, 2> sums = {};
  std::array<int, 2> legs = {};
  for (int position = 0; position < 4; ++position) {
    const bool outer = position == 0 || position == 3;
    bool is_head = outer == mirrored;  // ABBA, or BAAB
    double time = (round + (position + 0.5) / 4) / rounds;
    if (mistake == Mistake::kNoAlternation) {
      is_head = position >= 2;
      time = (is_head ? 0.5 : 0) + (round + (position % 2 + 0.5) / 2) / rounds / 2;
    }
    if (model_.missing_leg_share > 0 &&
        std::generate_canonical<double, 53>(random_) < model_.missing_leg_share) {
      continue;
    }
    sums[is_head] += (is_head ? head : base) + Drift(time);
    if (model_.leg_deviation > 0 || pooled) {
      // Pooled launches of one process look precise: that is the trap.
      const double deviation = pooled ? 0.0005 : model_.leg_deviation;
      sums[is_head] += deviation * normal_(random_);
    }
    ++legs[is_head];
  }
  RoundResult result;
  if (legs[0] != legs[1] || legs[0] == 0) {
    result.invalid = "a leg is missing";
    return result;
  }
  result.base_log = sums[0] / legs[0];
  result.head_log = sums[1] / legs[1];
  result.log_ratio = result.head_log - result.base_log;
  return result;
}

// Each kernel alone, as if it were the only one flagged.
RunCounts Simulation::RunApart(const std::vector<double>& effects) {
  RunCounts counts;
  for (const double effect : effects) {
    const RunCounts one = Run({effect});
    counts.failed += one.failed;
    counts.flagged += one.flagged;
    counts.improved += one.improved;
    counts.verdicts.push_back(one.verdicts.front());
  }
  return counts;
}

RunCounts Simulation::Run(const std::vector<double>& effects, Mistake mistake) {
  if (mistake == Mistake::kForgetDivision) return RunApart(effects);
  const Rules rules;
  Gate gate(rules, std::vector<double>(effects.size(), -1));
  std::vector<std::vector<RoundResult>> screened(effects.size());
  std::vector<std::pair<double, double>> pairs(effects.size());
  for (auto& [base, head] : pairs) {
    if (mistake != Mistake::kPoolOnePair) continue;
    base = Process();
    head = Process();
  }
  for (int round = 0;; ++round) {
    const Stage stage = gate.stage();
    const std::vector<size_t> wanted = gate.Wanted();
    if (wanted.empty()) break;
    for (const size_t kernel : wanted) {
      std::tie(pair_base_, pair_head_) = pairs[kernel];
      const bool screening = stage == Stage::kScreen;
      const int at = screening ? round : round - rules.screen_rounds;
      const int rounds = screening ? rules.screen_rounds : gate.confirm_rounds(kernel);
      RoundResult result = Round(effects[kernel], std::min(at, rounds - 1), rounds, mistake);
      if (screening) {
        screened[kernel].push_back(result);
      } else if (mistake == Mistake::kReuseScreening && at < rules.screen_rounds) {
        result = screened[kernel][static_cast<size_t>(at)];
      }
      gate.Add(kernel, result);
    }
  }
  RunCounts counts;
  counts.flagged = gate.flagged();
  for (size_t i = 0; i < effects.size(); ++i) {
    const Judgement judgement = gate.Judge(i);
    counts.failed += judgement.verdict == Verdict::kFail ? 1 : 0;
    counts.improved += judgement.improved ? 1 : 0;
    counts.verdicts.push_back(judgement.verdict);
  }
  return counts;
}

int Simulation::RunsThatFail(const std::vector<double>& effects, int runs, Mistake mistake) {
  int failed = 0;
  for (int i = 0; i < runs; ++i) failed += Run(effects, mistake).failed > 0 ? 1 : 0;
  return failed;
}

}  // namespace tune::gate
