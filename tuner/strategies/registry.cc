// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tuner/strategies/strategies.h"

namespace tune {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Strategy> (*make)(const StrategyInput&);
  const char* summary = "";
  bool uses_prior = false;
};

constexpr Entry kStrategies[] = {
    {"auto", MakeAuto, "the surrogate, hedged by a local search that shares what both find", true},
    {"exhaustive", MakeExhaustive, "every config, in the order of the space"},
    {"random", MakeRandom, "every config, in an order that only the seed decides"},
    {"latin_hypercube", MakeLatinHypercube,
     "random, with every value of every param tried equally often", true},
    {"local_search", MakeLocalSearchBest,
     "climbs to the best neighbour, and starts again elsewhere", true},
    {"local_search_first", MakeLocalSearchFirst, "climbs to the first better neighbour", true},
    {"simulated_annealing", MakeSimulatedAnnealing,
     "a walk that takes worse steps less and less often", true},
    {"genetic", MakeGenetic, "crosses and mutates the best configs so far", true},
    {"differential_evolution", MakeDifferentialEvolution, "adds differences of configs to the best",
     true},
    {"particle_swarm", MakeParticleSwarm, "configs drawn towards their own and the swarm's best",
     true},
    {"surrogate", MakeSurrogate, "a Gaussian process of log time chooses by expected improvement",
     true},
};

}  // namespace

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kStrategies) names.emplace_back(entry.name);
  return names;
}

std::string StrategySummary(const std::string& name) {
  for (const Entry& entry : kStrategies) {
    if (name == entry.name) return entry.summary;
  }
  return "";
}

bool UsesPrior(const std::string& name) {
  const std::string_view chosen = name.empty() ? kDefaultStrategy : name;
  for (const Entry& entry : kStrategies) {
    if (chosen == entry.name) return entry.uses_prior;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const std::string& name, const Space& space,
                                                       StrategyOptions options) {
  std::vector<uint64_t> given = options.starts;
  if (options.first.has_value()) given.push_back(*options.first);
  for (uint64_t index : given) {
    if (index >= space.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("config ", index, " of a space of ", space.size()));
    }
    if (!space.Contains(index)) {
      return absl::InvalidArgumentError(
          absl::StrCat("config ", index, " is not valid: a constraint is false for it"));
    }
  }
  const std::string_view chosen = name.empty() ? kDefaultStrategy : name;
  for (const Entry& entry : kStrategies) {
    if (chosen == entry.name) return entry.make({space, std::move(options)});
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown strategy '", name, "'; there are ",
                                                 absl::StrJoin(StrategyNames(), ", ")));
}

}  // namespace tune
