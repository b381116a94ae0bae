// SPDX-License-Identifier: Apache-2.0
// The operating characteristics of the gate, by simulation with its own decision code: false alarms
// of whole runs, power, and the table of e95 that tuner/gate/rules.cc has. Prints Markdown.
// Usage: gate_characteristics [runs a cell, 10000] [seed, 1]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/tuner/gate/simulation.h"
#include "tuner/statistics/distributions.h"

namespace tune::gate {
namespace {

struct Row {
  const char* name;
  NoiseModel model;
};

std::vector<Row> Rows() {
  std::vector<Row> rows;
  const auto normal = [](double deviation) { return NoiseModel{.round_deviation = deviation}; };
  const auto student = [](double deviation) {
    return NoiseModel{.kind = NoiseModel::Kind::kStudent3, .round_deviation = deviation};
  };
  const auto bimodal = [](double size, double share) {
    return NoiseModel{.round_deviation = 0.0035, .slow_mode = size, .slow_mode_share = share};
  };
  rows.push_back({"normal, 0.35 %", normal(0.0035355)});
  rows.push_back({"normal, 0.71 %", normal(0.0070711)});
  rows.push_back({"normal, 1.41 %", normal(0.0141421)});
  rows.push_back({"normal, 2.83 %", normal(0.0282843)});
  rows.push_back({"Student t3, 0.71 %", student(0.0070711)});
  rows.push_back({"Student t3, 1.41 %", student(0.0141421)});
  rows.push_back({"Student t3, 2.83 %", student(0.0282843)});
  rows.push_back({"10 % of processes 5 % slower", bimodal(0.05, 0.1)});
  rows.push_back({"30 % of processes 5 % slower", bimodal(0.05, 0.3)});
  rows.push_back({"10 % of processes 12 % slower", bimodal(0.12, 0.1)});
  rows.push_back({"30 % of processes 12 % slower", bimodal(0.12, 0.3)});
  NoiseModel model = normal(0.0070711);
  model.linear_drift = 0.02;
  rows.push_back({"normal, 0.71 %, 2 % linear drift", model});
  model = normal(0.0070711);
  model.sine_drift = 0.005;
  rows.push_back({"normal, 0.71 %, 0.5 % sinusoidal drift", model});
  model = normal(0.0070711);
  model.bad_round = 0.10;
  rows.push_back({"normal, 0.71 %, one round 10 % off", model});
  model = normal(0.0070711);
  model.missing_leg_share = 0.02;
  rows.push_back({"normal, 0.71 %, 2 % of legs missing", model});
  return rows;
}

std::string Share(int hits, int runs) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.4f (at most %.4f)", static_cast<double>(hits) / runs,
                ClopperPearson(hits, runs, 0.95).high);
  return text;
}

void PrintFalseAlarms(int runs, uint64_t seed) {
  std::printf("\n## Whole runs that fail though nothing is slower than tolerated\n\n");
  std::printf("In brackets: the upper 95 %% bound (Clopper-Pearson).\n\n");
  std::printf(
      "| noise | unchanged, 100 kernels | flagged a run | all 10 at exactly +1 %% | "
      "all 100 at exactly +1 %% |\n|---|---|---|---|---|\n");
  for (const Row& row : Rows()) {
    Simulation unchanged(row.model, seed);
    int failed = 0;
    double flagged = 0;
    for (int i = 0; i < runs; ++i) {
      const RunCounts counts = unchanged.Run(std::vector<double>(100, 0.0));
      failed += counts.failed > 0 ? 1 : 0;
      flagged += counts.flagged;
    }
    const int hundred_runs = std::max(1, runs / 2);
    const auto worst = [&](uint64_t plus, size_t kernels, int count) {
      return Simulation(row.model, seed + plus).RunsThatFail(std::vector(kernels, 0.01), count);
    };
    const int ten = worst(1, 10, runs);
    const int hundred = worst(2, 100, hundred_runs);
    std::printf("| %s | %s | %.2f | %s | %s |\n", row.name, Share(failed, runs).c_str(),
                flagged / runs, Share(ten, runs).c_str(), Share(hundred, hundred_runs).c_str());
    std::fflush(stdout);
  }
}

void PrintPower(int runs, uint64_t seed) {
  const double effects[] = {0.015, 0.02, 0.03, 0.05, 0.10};
  std::printf("\n## One slowed kernel among 100: the share of runs that fail it\n\n| noise |");
  for (const double effect : effects) std::printf(" %.1f %% |", 100 * effect);
  std::printf("\n|---|---|---|---|---|---|\n");
  for (const Row& row : Rows()) {
    std::printf("| %s |", row.name);
    for (const double effect : effects) {
      std::vector<double> all(100, 0.0);
      all[0] = effect;
      Simulation simulation(row.model, seed + 3);
      int caught = 0;
      for (int i = 0; i < runs; ++i) {
        caught += simulation.Run(all).verdicts[0] == Verdict::kFail ? 1 : 0;
      }
      std::printf(" %.3f |", static_cast<double>(caught) / runs);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

void PrintMistakes(int runs, uint64_t seed) {
  std::printf("\n## The same, with a mistake: all 100 kernels at exactly +1 %%, 0.71 %%\n\n");
  std::printf("| mistake | runs that fail |\n|---|---|\n");
  NoiseModel drifting{.round_deviation = 0.0070711, .linear_drift = 0.02};
  const NoiseModel still{.round_deviation = 0.0070711};
  const std::vector<double> worst(100, 0.01);
  const struct {
    const char* name;
    NoiseModel model;
    Mistake mistake;
  } mistakes[] = {
      {"none", still, Mistake::kNone},
      {"alpha is not divided by the flagged", still, Mistake::kForgetDivision},
      {"launches of one pair of processes are pooled", still, Mistake::kPoolOnePair},
      {"no alternation, 2 % drift", drifting, Mistake::kNoAlternation},
      {"alternation, 2 % drift", drifting, Mistake::kNone},
      {"the screening's rounds are used again", still, Mistake::kReuseScreening},
  };
  for (const auto& [name, model, mistake] : mistakes) {
    const int failed = Simulation(model, seed + 4).RunsThatFail(worst, runs, mistake);
    std::printf("| %s | %s |\n", name, Share(failed, runs).c_str());
    std::fflush(stdout);
  }
}

// The slowdown over delta0, in round deviations, that 95 % of the runs fail when `flagged` kernels
// are flagged in all: found by bisection.
double E95(int flagged, int runs, uint64_t seed) {
  constexpr double kDeviation = 0.01;
  const Rules rules;
  double low = 0.5;
  double high = 3;
  for (int step = 0; step < 9; ++step) {
    const double factor = (low + high) / 2;
    Simulation simulation({.round_deviation = kDeviation}, seed);
    // The others are so slow that each of them is flagged.
    std::vector<double> effects(static_cast<size_t>(flagged), 0.5);
    effects[0] = rules.delta0 + factor * kDeviation;
    int caught = 0;
    for (int i = 0; i < runs; ++i) {
      caught += simulation.Run(effects).verdicts[0] == Verdict::kFail ? 1 : 0;
    }
    (caught < 0.95 * runs ? low : high) = factor;
  }
  return (low + high) / 2;
}

void PrintE95(int runs, uint64_t seed) {
  std::printf(
      "\n## e95: the slowdown caught in 95 %% of the runs is 1 %% + e95 * round deviation\n"
      "\n| flagged | rounds | e95 |\n|---|---|---|\n");
  for (const int flagged : {1, 2, 5, 10, 20, 50, 100}) {
    std::printf("| %d | %d | %.2f |\n", flagged, ConfirmRounds(flagged, 0.01),
                E95(flagged, std::max(200, runs / (1 + flagged / 5)), seed + 5));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tune::gate

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 10000;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::printf(
      "# Operating characteristics of the gate\n\nBy bench/micro/gate_characteristics, %d runs a "
      "cell (half as many in the last column, a fifth for power), seed %llu.\n",
      runs, static_cast<unsigned long long>(seed));
  tune::gate::PrintFalseAlarms(runs, seed);
  tune::gate::PrintPower(std::max(1, runs / 5), seed);
  tune::gate::PrintMistakes(std::max(1, runs / 5), seed);
  tune::gate::PrintE95(runs, seed);
  return 0;
}
