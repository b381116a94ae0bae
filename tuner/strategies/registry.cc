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
};

constexpr Entry kStrategies[] = {
    {"auto", MakeAuto},
    {"exhaustive", MakeExhaustive},
    {"random", MakeRandom},
    {"latin_hypercube", MakeLatinHypercube},
    {"local_search", MakeLocalSearchBest},
    {"local_search_first", MakeLocalSearchFirst},
    {"simulated_annealing", MakeSimulatedAnnealing},
    {"genetic", MakeGenetic},
    {"differential_evolution", MakeDifferentialEvolution},
    {"particle_swarm", MakeParticleSwarm},
    {"surrogate", MakeSurrogate},
};

}  // namespace

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kStrategies) names.emplace_back(entry.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const std::string& name, const Space& space,
                                                       StrategyOptions options) {
  if (options.first.has_value() && *options.first >= space.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("config ", *options.first, " of a space of ", space.size()));
  }
  const std::string_view chosen = name.empty() ? kDefaultStrategy : name;
  for (const Entry& entry : kStrategies) {
    if (chosen == entry.name) return entry.make({space, std::move(options)});
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown strategy '", name, "'; there are ",
                                                 absl::StrJoin(StrategyNames(), ", ")));
}

}  // namespace tune
