// SPDX-License-Identifier: Apache-2.0
// How long strategies think: a tell and the ask that follows it, on made-up spaces of up to a
// million configs, with 1 and with 32 in flight, and for the default with a prior too. An iteration
// is a trial of a search of 200; its time is reported, and as counters, in microseconds, the
// median, the 99th percentile and what the longest start took: making the strategy and its first
// ask.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/benchmark_run.h"
#include "tuner/expression/expression.h"
#include "tuner/space/space.h"
#include "tuner/strategies/strategy.h"

namespace tune {
namespace {

constexpr uint64_t kTrials = 200;
constexpr int kSearches = 3;
constexpr uint32_t kPriorSources = 3;
constexpr uint64_t kPriorConfigs = 200;  // of each source

// Blocks, tiles, steps and switches, as kernels have them, with the constraints that tie them.
Space MakeSpace(int64_t values) {
  SpaceDefinition definition;
  for (const char* name : {"BLOCK_X", "BLOCK_Y", "TILE_X", "TILE_Y", "STEP"}) {
    SpaceParam param = {name, {}};
    for (int64_t i = 1; i <= values; ++i) param.values.emplace_back(i);
    definition.params.push_back(std::move(param));
  }
  definition.params.push_back({"PAD", {false, true}});
  definition.params.push_back({"LAYOUT", {std::string("row"), std::string("column")}});
  for (const char* text :
       {"BLOCK_X * BLOCK_Y >= 4", "TILE_X * TILE_Y >= 2", "STEP <= BLOCK_X * 4"}) {
    definition.constraints.push_back({Expression::Parse(text).value(), text});
  }
  return Space::Build(definition).value();
}

Observation Measure(const Space& space, uint64_t index) {
  const std::vector<uint16_t> digits = space.DigitsAt(index);
  if (digits[0] + digits[1] + digits[2] == 3) {
    return {.index = index, .outcome = Outcome::kCompileFailed};
  }
  double cost = 1;
  for (size_t i = 0; i < digits.size(); ++i) {
    const double step = static_cast<double>(digits[i]) - static_cast<double>(i % 4);
    cost += 0.1 * std::abs(step) + 0.02 * step * step;
  }
  return {.index = index, .latency_ns = 1e5 * cost};
}

// The results of sweeps of 200 configs elsewhere: most configs of the space are in none of them.
std::vector<PriorObservation> PriorOf(const Space& space) {
  std::vector<PriorObservation> prior;
  for (uint32_t source = 0; source < kPriorSources; ++source) {
    for (uint64_t i = 0; i < kPriorConfigs; ++i) {
      const uint64_t index = (i * kPriorSources + source) * 2654435761U % space.size();
      const Observation observation = Measure(space, index);
      prior.push_back({.config = space.At(index),
                       .outcome = observation.outcome,
                       .relative_latency = observation.latency_ns / 1e5,
                       .source = source});
    }
  }
  return prior;
}

double QuantileOf(std::vector<double>& values, double quantile) {
  const auto place = static_cast<std::ptrdiff_t>(quantile * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}

void AskAndTell(benchmark::State& state, const std::string& name, const Space& space,
                uint32_t in_flight, const std::vector<PriorObservation>& prior) {
  using Clock = std::chrono::steady_clock;
  std::unique_ptr<Strategy> strategy;
  std::deque<uint64_t> pending;
  uint64_t trials = kTrials;
  uint64_t seed = 0;
  std::vector<double> think_us;
  double start_us = 0;
  for (auto _ : state) {
    if (trials == kTrials) {
      const auto start = Clock::now();
      strategy = MakeStrategy(name, space, {.seed = ++seed, .in_flight = in_flight, .prior = prior})
                     .value();
      pending.assign({strategy->Ask().value()});
      start_us = std::max(start_us,
                          std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      while (pending.size() < in_flight) pending.push_back(strategy->Ask().value());
      trials = 0;
    }
    const Observation observation = Measure(space, pending.front());
    pending.pop_front();
    const auto start = Clock::now();
    strategy->Tell(observation);
    pending.push_back(strategy->Ask().value());
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    state.SetIterationTime(seconds);
    think_us.push_back(1e6 * seconds);
    ++trials;
  }
  state.counters["median_us"] = QuantileOf(think_us, 0.5);
  state.counters["p99_us"] = QuantileOf(think_us, 0.99);
  state.counters["start_us"] = start_us;
}

}  // namespace
}  // namespace tune

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<tune::Space> spaces;
  for (const int64_t values : {5, 8, 12}) spaces.push_back(tune::MakeSpace(values));
  const auto add = [](const std::string& name, const tune::Space& space, uint32_t in_flight,
                      std::vector<tune::PriorObservation> prior) {
    const std::string label = absl::StrCat(name, "/configs:", space.size(),
                                           "/in_flight:", in_flight, "/prior:", prior.size());
    benchmark::RegisterBenchmark(label.c_str(),
                                 [=, &space](benchmark::State& state) {
                                   tune::AskAndTell(state, name, space, in_flight, prior);
                                 })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->Iterations(tune::kTrials * tune::kSearches);
  };
  for (const std::string& name : tune::StrategyNames()) {
    for (const tune::Space& space : spaces) {
      for (const uint32_t in_flight : {1U, 32U}) add(name, space, in_flight, {});
    }
  }
  for (const tune::Space& space : spaces) {
    for (const uint32_t in_flight : {1U, 32U}) {
      add(std::string(tune::kDefaultStrategy), space, in_flight, tune::PriorOf(space));
    }
  }
  tune::client::RunBenchmarks();
}
