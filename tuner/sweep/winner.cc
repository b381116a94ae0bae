// SPDX-License-Identifier: Apache-2.0
#include "tuner/sweep/winner.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tuner/statistics/median.h"
#include "tuner/statistics/paired_ratio.h"

namespace tune {
namespace {

constexpr size_t kFinalists = 8;
// With high noise many configs tie. One that was measured this much slower then does not win for
// its fewer registers.
constexpr double kSlackOfTies = 1.005;

bool IsFaster(const Trial& a, const Trial& b) {
  if (a.measurement.latency_ns_median != b.measurement.latency_ns_median) {
    return a.measurement.latency_ns_median < b.measurement.latency_ns_median;
  }
  return ToText(a.config) < ToText(b.config);
}

// Among equals: fewer registers, then less shared memory, then text, so that the answer does not
// depend on the order of trials.
bool IsPreferred(const Trial& a, const Trial& b) {
  auto key = [](const Trial& trial) {
    const Resources& resources = trial.resources;
    return std::make_tuple(resources.registers,
                           resources.static_shared_bytes + resources.dynamic_shared_bytes,
                           ToText(trial.config));
  };
  return key(a) < key(b);
}

// Trials that were ok, the newest of each config, fastest first.
std::vector<Trial> Ranked(const std::vector<Trial>& trials) {
  std::vector<Trial> ranked;
  std::unordered_set<std::string> seen;
  for (auto trial = trials.rbegin(); trial != trials.rend(); ++trial) {
    const bool newest = seen.insert(ToText(trial->config)).second;
    if (newest && trial->outcome == Outcome::kOk) ranked.push_back(*trial);
  }
  std::sort(ranked.begin(), ranked.end(), IsFaster);
  return ranked;
}

std::vector<Trial> Finalists(const std::vector<Trial>& trials, const Config& default_config) {
  const std::vector<Trial> ranked = Ranked(trials);
  std::vector<Trial> finalists;
  for (size_t i = 0; i < ranked.size(); ++i) {
    if (i < kFinalists || ranked[i].config == default_config) finalists.push_back(ranked[i]);
  }
  return finalists;
}

// Leaves out the slowest where so many rounds of all would take longer than `time`, going by what
// the search took. The fastest and the default stay.
void LeaveOutWhatDoesNotFit(int rounds, absl::Duration time, const Config& default_config,
                            std::vector<Trial>& finalists) {
  const auto seconds = [&] {
    double sum = 0;
    for (const Trial& trial : finalists) sum += trial.evaluate_seconds;
    return rounds * sum;
  };
  while (finalists.size() > 1 && absl::Seconds(seconds()) > time) {
    const bool last_is_default = finalists.back().config == default_config;
    if (last_is_default && finalists.size() == 2) return;
    finalists.erase(finalists.end() - (last_is_default ? 2 : 1));
  }
}

// A finalist's rounds so far.
struct Entry {
  Trial found;  // by the search
  std::vector<Trial> rounds;

  bool ok() const { return rounds.empty() || rounds.back().outcome == Outcome::kOk; }
};

// Runs one round. The first in a fresh process may meet a colder device than the last. So of two
// rounds the second goes the other way, and what drifts in a round costs all the same; and every
// round of the first few begins with another finalist.
absl::Status RunRound(size_t round, std::vector<Entry>& entries, Evaluator& evaluator) {
  std::vector<Entry*> turns;
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[(round / 2 * 2 + i) % entries.size()];
    if (entry.ok()) turns.push_back(&entry);
  }
  if (round % 2 == 1) std::reverse(turns.begin(), turns.end());
  if (turns.empty()) return absl::OkStatus();
  std::vector<Config> configs;
  for (const Entry* entry : turns) configs.push_back(entry->found.config);
  ASSIGN_OR_RETURN(std::vector<Trial> measured, evaluator.Remeasure(configs));
  if (measured.size() != configs.size()) {
    return absl::InternalError(absl::StrCat("the evaluator measured ", measured.size(), " of ",
                                            configs.size(), " configs again"));
  }
  for (size_t i = 0; i < turns.size(); ++i) turns[i]->rounds.push_back(std::move(measured[i]));
  return absl::OkStatus();
}

std::vector<double> RoundMedians(const Entry& entry) {
  std::vector<double> medians_ns;
  for (const Trial& trial : entry.rounds) {
    medians_ns.push_back(trial.measurement.latency_ns_median);
  }
  return medians_ns;
}

// Would more rounds change little? REQUIRES: a round.
bool IsSettled(const std::vector<Entry>& entries, double precision) {
  const Entry* fastest = nullptr;
  double least_ns = 0;
  for (const Entry& entry : entries) {
    if (!entry.ok()) continue;
    const double median_ns = EstimateMedian(RoundMedians(entry)).median;
    if (fastest == nullptr || median_ns < least_ns) {
      fastest = &entry;
      least_ns = median_ns;
    }
  }
  if (fastest == nullptr) return true;
  const std::vector<double> fastest_ns = RoundMedians(*fastest);
  return std::all_of(entries.begin(), entries.end(), [&](const Entry& entry) {
    if (!entry.ok() || &entry == fastest) return true;
    const RatioInterval ratio = EstimateRatio(RoundMedians(entry), fastest_ns);
    return !ratio.contains(1.0) || ratio.high - ratio.low <= 2 * precision;
  });
}

// The worst conditions that any round met.
void Merge(const Telemetry& from, Telemetry& to) {
  to.sm_clock_mhz = std::min(to.sm_clock_mhz, from.sm_clock_mhz);
  to.memory_clock_mhz = std::min(to.memory_clock_mhz, from.memory_clock_mhz);
  to.power_mw = std::max(to.power_mw, from.power_mw);
  to.temperature_c = std::max(to.temperature_c, from.temperature_c);
  to.throttle_reasons |= from.throttle_reasons;
  to.compute_processes = std::max(to.compute_processes, from.compute_processes);
}

Measurement PooledMeasurement(const std::vector<Trial>& rounds) {
  size_t each = rounds[0].measurement.samples_ns.size();
  for (const Trial& trial : rounds) each = std::min(each, trial.measurement.samples_ns.size());
  std::vector<double> samples_ns;
  std::vector<double> medians_ns;
  for (const Trial& trial : rounds) {
    const std::vector<double>& all = trial.measurement.samples_ns;
    const std::vector<double> first(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(each));
    // An evaluator that remembers its measurements may have kept no samples.
    medians_ns.push_back(each > 0 ? EstimateMedian(first).median
                                  : trial.measurement.latency_ns_median);
    samples_ns.insert(samples_ns.end(), first.begin(), first.end());
  }
  if (samples_ns.empty()) samples_ns = medians_ns;
  Measurement pooled = Summarise(std::move(samples_ns));
  const MedianInterval interval = EstimateMedian(std::move(medians_ns));
  pooled.latency_ns_median = interval.median;
  pooled.latency_ns_low = interval.low;
  pooled.latency_ns_high = interval.high;
  pooled.clock = rounds.back().measurement.clock;
  pooled.cache_mode = rounds.back().measurement.cache_mode;
  return pooled;
}

Trial Pool(Entry entry, const Evaluator& evaluator) {
  Trial pooled = entry.rounds.back();
  // A compile that came from the cache may know less about the variant. Other machine code takes
  // other resources.
  const bool same_code = pooled.resources.binary_sha256 == entry.found.resources.binary_sha256;
  if (pooled.resources.registers == 0 && same_code) pooled.resources = entry.found.resources;
  pooled.evaluate_seconds = 0;
  for (const Trial& round : entry.rounds) pooled.evaluate_seconds += round.evaluate_seconds;
  if (pooled.outcome != Outcome::kOk) {
    pooled.message =
        absl::StrCat("when measured again, round ", entry.rounds.size(), ": ", pooled.message);
    pooled.message.resize(std::min(pooled.message.size(), kMaxTrialMessageBytes));
    return pooled;
  }
  for (const Trial& round : entry.rounds) Merge(round.telemetry, pooled.telemetry);
  pooled.measurement = PooledMeasurement(entry.rounds);
  evaluator.Appraise(pooled);
  return pooled;
}

// REQUIRES: at least one sample a round.
std::vector<double> RoundMedians(const Trial& trial, size_t rounds) {
  const std::vector<double>& samples_ns = trial.measurement.samples_ns;
  const auto each = static_cast<std::ptrdiff_t>(samples_ns.size() / rounds);
  std::vector<double> medians_ns;
  for (auto begin = samples_ns.begin(); medians_ns.size() < rounds; begin += each) {
    medians_ns.push_back(EstimateMedian({begin, begin + each}).median);
  }
  return medians_ns;
}

// Whether the two are equal within the precision of enough rounds.
bool IsTie(const Trial& trial, const Trial& fastest, size_t rounds) {
  if (rounds < kRoundsToTell) return false;
  if (!EstimateRatio(RoundMedians(trial, rounds), RoundMedians(fastest, rounds)).contains(1.0)) {
    return false;
  }
  const auto width = [](const Trial& one) {
    return one.measurement.latency_ns_high - one.measurement.latency_ns_low;
  };
  const double apart = trial.measurement.latency_ns_median - fastest.measurement.latency_ns_median;
  return apart <= std::max(width(trial), width(fastest));
}

// "2.69", "39".
std::string FactorText(double factor) {
  return absl::StrFormat("%.*f", factor < 10 ? 2 : 0, factor);
}

std::string VerdictOf(const OverDefault& over, size_t rounds) {
  const std::string factor = FactorText(over.speedup);
  switch (over.standing) {
    case DefaultStanding::kSame:
      return "is the best";
    case DefaultStanding::kTie:
      return "cannot be told from the best";
    case DefaultStanding::kFaster:
      return absl::StrCat("the best is ", factor, " times as fast");
    case DefaultStanding::kUndecided:
      if (rounds == 0) {
        return absl::StrCat("the best is ", factor,
                            " times as fast by the search alone: it was not measured again");
      }
      if (rounds >= kRoundsToTell) {
        return absl::StrCat("the rounds vary too much to tell; by their medians the best is ",
                            factor, " times as fast");
      }
      return absl::StrCat(rounds, rounds == 1 ? " round is" : " rounds are",
                          " too few to tell; by ", rounds == 1 ? "it" : "them", " the best is ",
                          factor, " times as fast");
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<Finals> MeasureFinals(const std::vector<Trial>& trials, const Config& default_config,
                                     const ConfirmPolicy& policy, Evaluator& evaluator) {
  std::vector<Trial> finalists = Finalists(trials, default_config);
  // Fresh processes and the reference take the other half.
  LeaveOutWhatDoesNotFit(policy.rounds_min, policy.limit / 2, default_config, finalists);
  std::vector<Entry> entries;
  for (Trial& trial : finalists) entries.push_back({std::move(trial), {}});
  if (entries.empty()) return absl::FailedPreconditionError("no config was ok");
  Finals finals;
  const int rounds_max = std::max(policy.rounds_max, 1);
  const absl::Time start = evaluator.Now();
  for (absl::Duration longest; finals.rounds < rounds_max; ++finals.rounds) {
    const absl::Time begin = evaluator.Now();
    if (finals.rounds % policy.batch == 0) {
      if (finals.rounds > 0 && IsSettled(entries, policy.precision)) break;
      evaluator.ExpectRounds(std::min(policy.batch, rounds_max - finals.rounds),
                             start + policy.limit - begin);
    }
    if (finals.rounds >= policy.rounds_min && begin + longest > start + policy.time) break;
    const absl::Status round = RunRound(static_cast<size_t>(finals.rounds), entries, evaluator);
    if (absl::IsDeadlineExceeded(round) && finals.rounds > 0) break;
    RETURN_IF_ERROR(round);
    longest = std::max(longest, evaluator.Now() - begin);
  }
  for (Entry& entry : entries) finals.trials.push_back(Pool(std::move(entry), evaluator));
  return finals;
}

absl::StatusOr<Winner> NameWinner(const Finals& finals, const Config& default_config) {
  const size_t rounds = static_cast<size_t>(std::max(finals.rounds, 1));
  Winner winner;
  std::vector<Trial> ok;
  for (const Trial& trial : finals.trials) {
    if (trial.outcome != Outcome::kOk || trial.measurement.samples_ns.size() < rounds) continue;
    if (trial.config == default_config) winner.default_trial = trial;
    ok.push_back(trial);
  }
  if (ok.empty()) {
    return absl::FailedPreconditionError("no config was ok when it was measured again");
  }
  const Trial& fastest = *std::min_element(ok.begin(), ok.end(), IsFaster);
  std::vector<Trial> tied;
  for (const Trial& trial : ok) {
    if (&trial == &fastest || IsTie(trial, fastest, rounds)) tied.push_back(trial);
  }
  std::sort(tied.begin(), tied.end(), IsPreferred);
  double most_ns = kSlackOfTies * fastest.measurement.latency_ns_median;
  if (winner.default_trial) {
    most_ns = std::min(most_ns, winner.default_trial->measurement.latency_ns_median);
  }
  const auto eligible = [&](const Trial& trial) {
    return trial.measurement.latency_ns_median <= most_ns;
  };
  // There is one: the fastest is among them.
  const auto best = std::find_if(tied.begin(), tied.end(), eligible);
  winner.best = *best;
  tied.erase(best);
  winner.ties = std::move(tied);
  return winner;
}

OverDefault StandToDefault(const Trial& best, const Trial* default_trial, size_t rounds,
                           bool tied) {
  OverDefault over;
  const double best_ns = best.measurement.latency_ns_median;
  if (default_trial == nullptr || !(best_ns > 0)) return over;
  over.speedup = default_trial->measurement.latency_ns_median / best_ns;
  const auto has_rounds = [rounds](const Trial& trial) {
    return rounds >= kRoundsToTell && trial.measurement.samples_ns.size() >= rounds;
  };
  if (has_rounds(best) && has_rounds(*default_trial)) {
    const RatioInterval ratio =
        EstimateRatio(RoundMedians(*default_trial, rounds), RoundMedians(best, rounds));
    over.speedup_low = ratio.low;
    over.speedup_high = ratio.high;
  }
  over.standing = default_trial->config == best.config ? DefaultStanding::kSame
                  : tied                               ? DefaultStanding::kTie
                  : over.speedup_low > 1               ? DefaultStanding::kFaster
                                                       : DefaultStanding::kUndecided;
  over.verdict = VerdictOf(over, rounds);
  return over;
}

}  // namespace tune
