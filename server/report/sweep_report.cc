// SPDX-License-Identifier: Apache-2.0
#include "server/report/sweep_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "server/devices/device_convert.h"
#include "server/rpc/wanted.h"
#include "server/sweep/sweep_convert.h"
#include "server/wire/nouns.h"
#include "tuner/statistics/effects.h"

namespace tune::server {
namespace {

constexpr size_t kExamplesMax = 3;
constexpr size_t kExampleBytesMax = 400;
constexpr size_t kPairParamsMax = 12;     // whose pairs are looked at: 66 pairs
constexpr size_t kHeatmapValuesMax = 40;  // a side; more cannot be read
constexpr double kOverlapWorthSaying = 0.05;
// Slower ones count as this many times the best: a config that is hopeless by a factor of 80 must
// not hide what separates the good ones.
constexpr double kHopelessRatio = 4;

// The distinct configs that were ok, each with the first time it got in the search, as factors.
struct Factors {
  std::vector<std::string> params;
  std::vector<std::vector<Value>> values;  // [param][level], in the order of their values
  Observations observations;
  std::vector<double> latency_ns;
  size_t hopeless = 0;  // slower than kHopelessRatio times the best
};

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const size_t low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

Factors FactorsOf(const SweepEvidence& evidence) {
  Factors factors;
  std::vector<const Trial*> trials;
  std::set<std::string>
      seen;  // a finalist is measured again; the search's time is like the others'
  for (const Trial& trial : evidence.trials) {
    if (trial.outcome != Outcome::kOk || !(trial.measurement.latency_ns_median > 0)) continue;
    if (seen.insert(ToText(trial.config)).second) trials.push_back(&trial);
  }
  if (trials.empty()) return factors;
  const auto& entries = trials.front()->config.entries;
  for (size_t p = 0; p < entries.size(); ++p) {
    factors.params.push_back(entries[p].first);
    std::set<Value> distinct;
    for (const Trial* trial : trials) distinct.insert(trial->config.entries[p].second);
    factors.values.emplace_back(distinct.begin(), distinct.end());
    factors.observations.level_counts.push_back(distinct.size());
    std::vector<size_t> levels;
    for (const Trial* trial : trials) {
      const auto& values = factors.values.back();
      levels.push_back(
          std::lower_bound(values.begin(), values.end(), trial->config.entries[p].second) -
          values.begin());
    }
    factors.observations.levels.push_back(std::move(levels));
  }
  for (const Trial* trial : trials) {
    factors.latency_ns.push_back(trial->measurement.latency_ns_median);
  }
  const double limit =
      kHopelessRatio * *std::min_element(factors.latency_ns.begin(), factors.latency_ns.end());
  for (double latency_ns : factors.latency_ns) {
    factors.hopeless += latency_ns > limit;
    factors.observations.response.push_back(std::log(std::min(latency_ns, limit)));
  }
  return factors;
}

v1::ParamEffect EffectOf(const Factors& factors, size_t param, const Config* winner) {
  v1::ParamEffect effect;
  effect.set_param(factors.params[param]);
  effect.set_explained_share(MainEffect(factors.observations, param));
  double fastest = 0;
  double slowest = 0;
  std::vector<std::vector<double>> by_level(factors.values[param].size());
  for (size_t i = 0; i < factors.latency_ns.size(); ++i) {
    by_level[factors.observations.levels[param][i]].push_back(factors.latency_ns[i]);
  }
  for (size_t level = 0; level < by_level.size(); ++level) {
    const std::vector<double>& latencies = by_level[level];
    v1::ParamValue* value = effect.add_values();
    *value->mutable_value() = ToProto(factors.values[param][level]);
    value->set_configs(latencies.size());
    value->set_latency_ns_median(Quantile(latencies, 0.5));
    value->set_latency_ns_low(Quantile(latencies, 0.25));
    value->set_latency_ns_high(Quantile(latencies, 0.75));
    value->set_latency_ns_best(Quantile(latencies, 0));
    if (fastest == 0 || value->latency_ns_median() < fastest) {
      fastest = value->latency_ns_median();
      *effect.mutable_best_value() = value->value();
    }
    slowest = std::max(slowest, value->latency_ns_median());
  }
  if (fastest > 0) effect.set_spread(slowest / fastest);
  if (winner != nullptr && param < winner->entries.size()) {
    *effect.mutable_winner_value() = ToProto(winner->entries[param].second);
  }
  return effect;
}

absl::StatusOr<size_t> FindParam(const Factors& factors, const std::string& name) {
  for (size_t p = 0; p < factors.params.size(); ++p) {
    if (factors.params[p] == name && factors.values[p].size() > 1) return p;
  }
  std::vector<std::string> names;
  for (size_t p = 0; p < factors.params.size(); ++p) {
    if (factors.values[p].size() > 1) names.push_back(factors.params[p]);
  }
  return absl::InvalidArgumentError(absl::StrCat("no parameter '", name,
                                                 "' with more than one value in this sweep; there "
                                                 "is: ",
                                                 absl::StrJoin(names, ", ")));
}

// The pair with the strongest interaction; where nothing interacts, the two that matter most.
std::pair<size_t, size_t> StrongestPair(const Factors& factors, const std::vector<size_t>& ranked) {
  std::pair<size_t, size_t> best = {ranked[0], ranked[1]};
  double strongest = 0.01;
  const size_t count = std::min(ranked.size(), kPairParamsMax);
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      const size_t sizes[] = {factors.values[ranked[i]].size(), factors.values[ranked[j]].size()};
      if (sizes[0] > kHeatmapValuesMax || sizes[1] > kHeatmapValuesMax) continue;
      const double share = Interaction(factors.observations, ranked[i], ranked[j]);
      if (share <= strongest) continue;
      strongest = share;
      best = {ranked[i], ranked[j]};
    }
  }
  return best;
}

// Whether a heat map of the two has few enough cells to be made.
bool HaveFewCells(const Factors& factors, size_t row, size_t column) {
  return factors.values[row].size() <= kHeatmapCellsMax / factors.values[column].size();
}

void FillHeatmap(const Factors& factors, size_t row, size_t column, v1::Heatmap& heatmap) {
  // The longer list of values lies along the page.
  heatmap.set_row_param(factors.params[row]);
  heatmap.set_column_param(factors.params[column]);
  for (const Value& value : factors.values[row]) *heatmap.add_rows() = ToProto(value);
  for (const Value& value : factors.values[column]) *heatmap.add_columns() = ToProto(value);
  const size_t columns = factors.values[column].size();
  std::vector<std::vector<double>> cells(factors.values[row].size() * columns);
  for (size_t i = 0; i < factors.latency_ns.size(); ++i) {
    cells[factors.observations.levels[row][i] * columns + factors.observations.levels[column][i]]
        .push_back(factors.latency_ns[i]);
  }
  for (const std::vector<double>& latencies : cells) {
    v1::HeatmapCell* cell = heatmap.add_cells();
    cell->set_configs(latencies.size());
    cell->set_latency_ns_best(Quantile(latencies, 0));
    cell->set_latency_ns_median(Quantile(latencies, 0.5));
  }
  heatmap.set_interaction_share(Interaction(factors.observations, row, column));
}

absl::Status AddHeatmap(const Factors& factors, const std::vector<size_t>& ranked,
                        const HeatmapChoice& choice, v1::SweepReport& report) {
  std::vector<size_t> chosen;
  for (const std::string& name : {choice.row_param, choice.column_param}) {
    if (name.empty()) continue;
    absl::StatusOr<size_t> param = FindParam(factors, name);
    if (!param.ok()) return param.status();
    chosen.push_back(*param);
  }
  if (chosen.size() == 2 && chosen[0] == chosen[1]) {
    return absl::InvalidArgumentError("the heat map needs two different parameters");
  }
  if (ranked.size() < 2) return absl::OkStatus();
  if (chosen.size() == 2) {
    if (!HaveFewCells(factors, chosen[0], chosen[1])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a heat map of ", choice.row_param, " and ", choice.column_param, " would have ",
          factors.values[chosen[0]].size(), " times ", factors.values[chosen[1]].size(),
          " cells, and may have ", kHeatmapCellsMax, ": choose parameters with fewer values"));
    }
    FillHeatmap(factors, chosen[0], chosen[1], *report.mutable_heatmap());
    return absl::OkStatus();
  }
  if (chosen.size() == 1) {
    const auto other = std::find_if(ranked.begin(), ranked.end(), [&](size_t param) {
      return param != chosen[0] && HaveFewCells(factors, chosen[0], param);
    });
    if (other == ranked.end()) return absl::OkStatus();
    const bool row = !choice.row_param.empty();
    FillHeatmap(factors, row ? chosen[0] : *other, row ? *other : chosen[0],
                *report.mutable_heatmap());
    return absl::OkStatus();
  }
  auto [row, column] = StrongestPair(factors, ranked);
  if (!HaveFewCells(factors, row, column)) return absl::OkStatus();
  if (factors.values[row].size() > factors.values[column].size()) std::swap(row, column);
  FillHeatmap(factors, row, column, *report.mutable_heatmap());
  return absl::OkStatus();
}

void AddTimeline(const SweepEvidence& evidence, v1::SweepReport& report) {
  uint64_t number = 0;
  double best = 0;
  double started_ms = 0;
  v1::TimelinePoint last;
  for (size_t i = evidence.reused; i < evidence.trials.size(); ++i) {
    const Trial& trial = evidence.trials[i];
    if (trial.purpose != TrialPurpose::kSearch) continue;
    if (number == 0) {
      started_ms = static_cast<double>(trial.finished_unix_ms) - trial.evaluate_seconds * 1e3;
    }
    ++number;
    const double median = trial.measurement.latency_ns_median;
    const bool better = trial.outcome == Outcome::kOk && median > 0 && (best == 0 || median < best);
    if (better) best = median;
    last.set_trial_number(number);
    last.set_seconds(
        std::max(0.0, (static_cast<double>(trial.finished_unix_ms) - started_ms) / 1e3));
    last.set_best_latency_ns(best);
    last.set_trial_id(trial.id);
    if (better) *report.add_timeline() = last;
  }
  if (best > 0 && report.timeline(report.timeline_size() - 1).trial_number() != number) {
    *report.add_timeline() = last;
  }
}

// Messages that differ in numbers and paths only are the same to a reader.
std::string Shape(const std::string& message) {
  std::string shape;
  for (char c : message.substr(0, kExampleBytesMax)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) shape += c;
    if (digit && (shape.empty() || shape.back() != '#')) shape += '#';
  }
  return shape;
}

std::string Cut(const std::string& text) {
  if (text.size() <= kExampleBytesMax) return text;
  size_t end = kExampleBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

void AddOutcomes(const SweepEvidence& evidence, v1::SweepReport& report) {
  struct Group {
    uint64_t count = 0;
    const Trial* first = nullptr;
  };
  std::map<Outcome, std::map<std::string, Group>> groups;
  std::map<Outcome, uint64_t> counts;
  for (const Trial& trial : evidence.trials) {
    if (trial.purpose != TrialPurpose::kSearch) continue;  // a config counts once
    ++counts[trial.outcome];
    if (trial.outcome == Outcome::kOk) continue;
    Group& group = groups[trial.outcome][Shape(trial.message)];
    ++group.count;
    if (group.first == nullptr) group.first = &trial;
  }
  for (const auto& [outcome, count] : counts) {
    v1::OutcomeSummary* summary = report.add_outcomes();
    summary->set_outcome(static_cast<v1::Outcome>(outcome));
    summary->set_count(count);
    std::vector<Group> ranked;
    for (const auto& [shape, group] : groups[outcome]) ranked.push_back(group);
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const Group& a, const Group& b) { return a.count > b.count; });
    ranked.resize(std::min(ranked.size(), kExamplesMax));
    for (const Group& group : ranked) {
      v1::OutcomeExample* example = summary->add_examples();
      example->set_count(group.count);
      example->set_message(Utf8(Cut(group.first->message)));
      example->set_trial_id(group.first->id);
      *example->mutable_config() = ToProto(group.first->config);
    }
  }
  std::stable_sort(report.mutable_outcomes()->begin(), report.mutable_outcomes()->end(),
                   [](const auto& a, const auto& b) { return a.count() > b.count(); });
}

uint64_t ConfigsTried(const SweepEvidence& evidence) {
  std::set<std::string> configs;
  for (const Trial& trial : evidence.trials) configs.insert(ToText(trial.config));
  return configs.size();
}

// Why the configs that were ok are no full grid of their params' values.
std::string WhyUneven(const SweepEvidence& evidence, const Factors& factors) {
  const uint64_t tried = ConfigsTried(evidence);
  std::map<std::string, std::set<Value>> values;
  for (const Trial& trial : evidence.trials) {
    for (const auto& [param, value] : trial.config.entries) values[param].insert(value);
  }
  double grid = 1;
  for (const auto& [param, distinct] : values) grid *= static_cast<double>(distinct.size());
  std::vector<std::string> reasons;
  const uint64_t space_size = evidence.view.progress.space_size;
  if (grid > static_cast<double>(space_size))
    reasons.push_back("constraints tie parameters together");
  if (tried < space_size) reasons.push_back("not every config was tried");
  if (factors.latency_ns.size() < tried) reasons.push_back("some configs were not ok");
  return reasons.empty() ? "values of some parameters go together"
                         : absl::StrJoin(reasons, " and ");
}

void AddNotes(const SweepEvidence& evidence, const Factors& factors, v1::SweepReport& report) {
  if (factors.hopeless > 0) {
    report.add_notes(absl::StrCat(
        Counted(factors.hopeless, "config is", "configs are"), " slower than ", kHopelessRatio,
        " times the best, which counts as ", kHopelessRatio, " times in the shares"));
  }
  double sum = 0;
  for (const v1::ParamEffect& param : report.params()) sum += param.explained_share();
  if (sum > report.explained_share() + kOverlapWorthSaying) {
    report.add_notes(absl::StrCat(WhyUneven(evidence, factors),
                                  ", so the shares of parameters overlap and add up to more than "
                                  "they explain jointly"));
  }
  const uint64_t tried = ConfigsTried(evidence);
  if (tried > 0 && tried < evidence.view.progress.space_size) {
    report.add_notes(
        "the search did not try every config: values that it found good early were "
        "tried more often, and their medians show it");
  }
  if (evidence.reused > 0) {
    report.add_notes(absl::StrCat(
        Counted(evidence.reused, "trial of earlier sweeps is", "trials of earlier sweeps are"),
        " in the effects and the outcomes, "
        "not in the time line"));
  }
  uint64_t early = 0;
  for (const Trial& trial : evidence.trials) early += trial.measurement.stopped_early;
  if (early > 0) {
    report.add_notes(absl::StrCat(Counted(early, "slow config has", "slow configs have"),
                                  " few samples: the measurement was cut short"));
  }
}

}  // namespace

absl::StatusOr<v1::SweepReport> MakeSweepReport(const SweepEvidence& evidence,
                                                const HeatmapChoice& choice,
                                                const Cancelled& cancelled) {
  v1::SweepReport report;
  *report.mutable_sweep() = ToProto(evidence.view);
  report.set_driver(evidence.key.driver);
  report.set_compiler(evidence.key.compiler);
  const Factors factors = FactorsOf(evidence);
  report.set_configs_ok(factors.latency_ns.size());
  const Config* winner = evidence.view.result ? &evidence.view.result->best.config : nullptr;
  std::vector<std::pair<double, size_t>> shares;
  for (size_t p = 0; p < factors.params.size(); ++p) {
    RETURN_IF_ERROR(CheckWanted(cancelled));
    if (factors.values[p].size() < 2) continue;
    shares.emplace_back(-MainEffect(factors.observations, p), p);
  }
  std::sort(shares.begin(), shares.end());
  std::vector<size_t> ranked;
  for (const auto& [share, param] : shares) {
    RETURN_IF_ERROR(CheckWanted(cancelled));
    ranked.push_back(param);
    *report.add_params() = EffectOf(factors, param, winner);
  }
  if (!ranked.empty()) report.set_explained_share(AdditiveShare(factors.observations));
  RETURN_IF_ERROR(AddHeatmap(factors, ranked, choice, report));
  RETURN_IF_ERROR(CheckWanted(cancelled));
  AddTimeline(evidence, report);
  AddOutcomes(evidence, report);
  AddNotes(evidence, factors, report);
  return report;
}

}  // namespace tune::server
