// SPDX-License-Identifier: Apache-2.0
// Naming the winner of a sweep. The fastest of many noisy estimates is fast partly by luck, so the
// top few are measured again and only those numbers count.
#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tuner/status_macros.h"
#include "tuner/sweep.h"

namespace tune {
namespace {

constexpr size_t kFinalists = 8;

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

}  // namespace

absl::StatusOr<Winner> ConfirmWinner(const std::vector<Trial>& trials, const Config& default_config,
                                     Evaluator& evaluator) {
  const std::vector<Trial> ranked = Ranked(trials);
  if (ranked.empty()) return absl::FailedPreconditionError("no config was ok");
  std::vector<Trial> finalists;
  for (size_t i = 0; i < ranked.size(); ++i) {
    if (i < kFinalists || ranked[i].config == default_config) finalists.push_back(ranked[i]);
  }
  std::vector<Config> configs;
  for (const Trial& trial : finalists) configs.push_back(trial.config);
  ASSIGN_OR_RETURN(std::vector<Trial> measured, evaluator.Remeasure(configs));
  if (measured.size() != configs.size()) {
    return absl::InternalError(absl::StrCat("the evaluator measured ", measured.size(), " of ",
                                            configs.size(), " configs again"));
  }
  Winner winner;
  std::vector<Trial> ok;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (measured[i].outcome != Outcome::kOk) continue;
    // A compile that came from the cache may know less about the variant.
    if (measured[i].resources.registers == 0) measured[i].resources = finalists[i].resources;
    if (measured[i].config == default_config) winner.default_trial = measured[i];
    ok.push_back(std::move(measured[i]));
  }
  if (ok.empty()) {
    return absl::FailedPreconditionError("no config was ok when it was measured again");
  }
  const Trial& fastest = *std::min_element(ok.begin(), ok.end(), IsFaster);
  const double bound = fastest.measurement.latency_ns_high;
  std::vector<Trial> tied;
  for (const Trial& trial : ok) {
    if (&trial == &fastest || trial.measurement.latency_ns_low <= bound) tied.push_back(trial);
  }
  std::sort(tied.begin(), tied.end(), IsPreferred);
  winner.best = tied.front();
  winner.ties.assign(tied.begin() + 1, tied.end());
  return winner;
}

}  // namespace tune
