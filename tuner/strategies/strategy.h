// SPDX-License-Identifier: Apache-2.0
// A strategy decides which configs to try. A sweep calls Ask() for the next config and Tell() with
// each result; many configs may be in flight between the two, and results come in any order.
// Configs are indices of a Space, which the strategy never evaluates itself.
//
//   ASSIGN_OR_RETURN(auto strategy, MakeStrategy("auto", space, {.seed = 1}));
//   while (const auto index = strategy->Ask()) {
//     strategy->Tell({.index = *index, .outcome = Outcome::kOk, .latency_ns = Measure(*index)});
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/config.h"
#include "tuner/space/space.h"
#include "tuner/trial.h"

namespace tune {

// The compiler's report on a variant.
struct VariantResources {
  int64_t registers = 0;     // a thread
  int64_t spill_bytes = 0;   // a thread
  int64_t shared_bytes = 0;  // a block, static and dynamic
};

// The result of a config.
struct Observation {
  uint64_t index = 0;
  Outcome outcome = Outcome::kOk;
  double latency_ns = 0;    // kOk only
  double relative_std = 0;  // standard deviation of latency_ns, as a fraction of it; 0: unknown
  std::optional<VariantResources> resources = std::nullopt;
};

// The result of a config elsewhere: on another device, for another shape, in an earlier version.
struct PriorObservation {
  Config config;  // one that the space does not have is passed over
  Outcome outcome = Outcome::kOk;
  // Latency over the best latency of the same source, at least 1; kOk only.
  double relative_latency = 1;
  uint32_t source = 0;  // observations of one source share a number
  double weight = 1;    // trust in the source before anything is measured, 0 to 1
};

struct StrategyOptions {
  uint64_t seed = 0;
  std::optional<uint64_t> first = std::nullopt;  // tried before any other (the default config)
  std::vector<uint64_t> starts = {};             // tried next, in this order: what won elsewhere
  uint64_t budget_trials = 0;                    // how many there will be at most; 0: unknown
  uint32_t in_flight = 1;                        // how many are asked for before the first is told
  std::vector<PriorObservation> prior = {};
};

// Not thread-safe. Never proposes the same index twice, nor one whose result it has. The same
// options and the same sequence of calls give the same proposals.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // The next config to try, or nullopt if none is left.
  virtual std::optional<uint64_t> Ask() = 0;
  // Reports the result of a config, asked for or known from before.
  virtual void Tell(const Observation& observation) = 0;
  // The probability, by the strategy's model, that the config last asked for beats the best result
  // so far; nullopt if it has no model.
  virtual std::optional<double> ImprovementChance() const { return std::nullopt; }
};

// The strategy of a sweep that names none.
inline constexpr std::string_view kDefaultStrategy = "auto";

// The strategies there are, for help texts and errors.
std::vector<std::string> StrategyNames();
// A line for people; empty if no strategy has this name.
std::string StrategySummary(const std::string& name);
// Whether StrategyOptions::prior changes its choices.
bool UsesPrior(const std::string& name);

// An empty name is kDefaultStrategy. INVALID_ARGUMENT names the strategies there are. `space` must
// outlive the strategy.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const std::string& name, const Space& space,
                                                       StrategyOptions options = {});

}  // namespace tune
