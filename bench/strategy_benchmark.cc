// SPDX-License-Identifier: Apache-2.0
// How good the strategies are on recorded spaces, and how long they think. The figures of
// docs/strategies.md are this program's.
//
// strategy_benchmark FOLDER [--strategies=a,b] [--seeds=50] [--in-flight=1] [--budget=200]
//                    [--only=TEXT] [--score] [--prior]
//
// FOLDER holds recordings in the neutral form: NAME.json and NAME.csv.gz. Each trial is one of a
// config never tried before; a failed one counts.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tuner/device/replay/formats.h"
#include "tuner/device/replay/recording.h"
#include "tuner/strategy.h"

namespace tune {
namespace {

using replay::RecordedSpace;
using replay::RecordedTrial;

struct Flags {
  std::string folder;
  std::vector<std::string> strategies = {"auto"};
  uint64_t seeds = 50;
  uint32_t in_flight = 1;
  uint64_t budget = 200;
  std::string only;
  bool score = false;
  bool prior = false;
};

constexpr uint64_t kMarks[] = {25, 50, 100, 200};
constexpr uint64_t kPriorMarks[] = {1, 10, 25, 50, 100};

// What one run found: the best latency over the optimum after each trial (infinite while nothing
// worked), and what each ask with its tell took.
struct Run {
  std::vector<double> best;
  std::vector<double> think_us;
};

Run Play(const RecordedSpace& recorded, const std::string& strategy_name, StrategyOptions options,
         uint64_t budget) {
  using Clock = std::chrono::steady_clock;
  Run run;
  const uint32_t in_flight = options.in_flight;
  auto strategy = MakeStrategy(strategy_name, recorded.space(), std::move(options)).value();
  std::deque<uint64_t> pending;
  double best = INFINITY;
  budget = std::min(budget, recorded.space().size());

  while (run.best.size() < budget) {
    const auto start = Clock::now();
    while (pending.size() < in_flight && pending.size() + run.best.size() < budget) {
      const std::optional<uint64_t> index = strategy->Ask();
      if (!index.has_value()) break;
      pending.push_back(*index);
    }
    if (pending.empty()) break;
    const RecordedTrial& trial = recorded.At(pending.front());
    strategy->Tell(
        {.index = pending.front(),
         .outcome = trial.outcome,
         .latency_ns = trial.latency_ns,
         .relative_std = trial.latency_ns > 0 ? trial.latency_ns_std / trial.latency_ns : 0});
    pending.pop_front();
    const double think_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    run.think_us.push_back(think_us);
    if (trial.outcome == Outcome::kOk) best = std::min(best, trial.latency_ns);
    run.best.push_back(best / recorded.optimum_ns());
  }
  return run;
}

double Quantile(std::vector<double> values, double quantile) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const double place = quantile * static_cast<double>(values.size() - 1);
  const size_t low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, values.size() - 1);
  if (values[low] == values[high]) return values[low];
  return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
}

double AfterTrials(const Run& run, uint64_t trials) {
  if (run.best.empty()) return INFINITY;
  return run.best[std::min<uint64_t>(trials, run.best.size()) - 1];
}

double MedianAfter(const std::vector<Run>& runs, uint64_t trials) {
  std::vector<double> values;
  for (const Run& run : runs) values.push_back(AfterTrials(run, trials));
  return Quantile(std::move(values), 0.5);
}

// Latencies over the optimum of all that worked, ascending.
std::vector<double> SortedRatios(const RecordedSpace& recorded) {
  std::vector<double> ratios;
  for (const RecordedTrial& trial : recorded.recording().trials) {
    if (trial.outcome == Outcome::kOk) ratios.push_back(trial.latency_ns / recorded.optimum_ns());
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

// Trials that random search needs to close a part of the gap from the median to the optimum.
uint64_t Cutoff(const std::vector<double>& ratios, double part) {
  const double median = Quantile(ratios, 0.5);
  const double target = 1 + (1 - part) * (median - 1);
  const auto slower =
      static_cast<uint64_t>(ratios.end() - std::upper_bound(ratios.begin(), ratios.end(), target));
  const uint64_t count = ratios.size();
  return (slower + (count + 1 - slower) - 1) / (count + 1 - slower);  // rounded up
}

// The performance score over trials of Willemsen and others, "A methodology for comparing
// optimization algorithms for auto-tuning", Future Generation Computer Systems, 2024, with the mean
// rank over runs: 0 is random search, 1 the optimum from the start.
double Score(const std::vector<double>& ratios, const std::vector<Run>& runs) {
  const uint64_t last = Cutoff(ratios, 0.95);
  const uint64_t first = std::max<uint64_t>(Cutoff(ratios, 0.01), 1);
  const auto count = static_cast<double>(ratios.size());
  double sum = 0;
  uint64_t places = 0;
  for (uint64_t k = first; k < last; ++k, ++places) {
    double ranks = 0;
    for (const Run& run : runs) {
      const double best = std::min(AfterTrials(run, k), ratios.back());
      ranks += static_cast<double>(std::lower_bound(ratios.begin(), ratios.end(), best) -
                                   ratios.begin());
    }
    const auto rank = static_cast<size_t>(std::lround(ranks / static_cast<double>(runs.size())));
    const double draws = static_cast<double>(k);
    const auto place =
        std::min(count - 1, static_cast<double>(std::lround(draws * (count + 1) / (draws + 1))));
    const double baseline = ratios[ratios.size() - 1 - static_cast<size_t>(place)];
    if (baseline <= 1) continue;
    sum += (baseline - ratios[rank]) / (baseline - 1);
  }
  return places == 0 ? 0 : sum / static_cast<double>(places);
}

absl::StatusOr<RecordedSpace> Load(const std::filesystem::path& json) {
  std::vector<replay::RecordingFile> files;
  std::filesystem::path csv = json;
  csv.replace_extension(".csv.gz");
  for (const std::filesystem::path& path : {json, csv}) {
    std::ifstream in(path, std::ios::binary);
    files.push_back(
        {path.filename().string(), std::string(std::istreambuf_iterator<char>(in), {})});
  }
  auto recording = replay::ReadRecording(files);
  if (!recording.ok()) return recording.status();
  return RecordedSpace::Create(*std::move(recording));
}

std::vector<RecordedSpace> LoadFolder(const Flags& flags) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(flags.folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".json" || !absl::StrContains(name, flags.only)) continue;
    std::filesystem::path csv = entry.path();
    if (std::filesystem::exists(csv.replace_extension(".csv.gz"))) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<RecordedSpace> spaces;
  for (const std::filesystem::path& path : paths) {
    absl::StatusOr<RecordedSpace> space = Load(path);
    if (!space.ok()) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), std::string(space.status().message()).c_str());
      std::exit(1);
    }
    spaces.push_back(*std::move(space));
  }
  return spaces;
}

void Compare(const Flags& flags, const std::vector<RecordedSpace>& spaces,
             const std::string& strategy) {
  std::vector<double> logs(std::size(kMarks), 0);
  std::vector<double> think_us;
  double scores = 0;
  for (const RecordedSpace& recorded : spaces) {
    const std::vector<double> ratios = SortedRatios(recorded);
    const uint64_t budget =
        flags.score ? std::max(flags.budget, Cutoff(ratios, 0.95)) : flags.budget;
    std::vector<Run> runs;
    for (uint64_t seed = 0; seed < flags.seeds; ++seed) {
      runs.push_back(
          Play(recorded, strategy, {.seed = seed, .in_flight = flags.in_flight}, budget));
      think_us.insert(think_us.end(), runs.back().think_us.begin(), runs.back().think_us.end());
    }
    std::printf("  %-32s", recorded.recording().name.c_str());
    for (size_t i = 0; i < std::size(kMarks); ++i) {
      if (kMarks[i] > budget) continue;
      const double median = MedianAfter(runs, kMarks[i]);
      logs[i] += std::log(median);
      std::printf(" %7.4f", median);
    }
    if (flags.score) {
      const double score = Score(ratios, runs);
      scores += score;
      std::printf("  K %4llu score %6.3f", static_cast<unsigned long long>(budget), score);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  const auto count = static_cast<double>(spaces.size());
  std::printf("%-34s", strategy.c_str());
  for (size_t i = 0; i < std::size(kMarks) && kMarks[i] <= flags.budget; ++i) {
    std::printf(" %7.4f", std::exp(logs[i] / count));
  }
  if (flags.score) std::printf("  score %6.3f", scores / count);
  double sum = 0;
  for (double us : think_us) sum += us;
  std::printf("  ask+tell us: median %.0f, mean %.0f, 99 %% %.0f\n", Quantile(think_us, 0.5),
              sum / static_cast<double>(think_us.size()), Quantile(think_us, 0.99));
  std::fflush(stdout);
}

std::vector<PriorObservation> PriorFrom(const RecordedSpace& source) {
  std::vector<PriorObservation> prior;
  for (uint64_t index = 0; index < source.space().size(); ++index) {
    const RecordedTrial& trial = source.At(index);
    prior.push_back({.config = source.space().At(index),
                     .outcome = trial.outcome,
                     .relative_latency = trial.latency_ns / source.optimum_ns()});
  }
  return prior;
}

// Each ordered pair of recordings of the same kernel: the second searched with the first known.
void ComparePriors(const Flags& flags, const std::vector<RecordedSpace>& spaces,
                   const std::string& strategy) {
  std::vector<std::vector<double>> medians(std::size(kPriorMarks));
  size_t worse = 0;
  for (const RecordedSpace& target : spaces) {
    std::vector<Run> alone;
    for (const RecordedSpace& source : spaces) {
      if (&source == &target || source.recording().kernel != target.recording().kernel) continue;
      const std::vector<PriorObservation> prior = PriorFrom(source);
      std::vector<Run> runs;
      const bool first = alone.empty();
      for (uint64_t seed = 0; seed < flags.seeds; ++seed) {
        StrategyOptions options{.seed = seed, .in_flight = flags.in_flight};
        if (first) alone.push_back(Play(target, strategy, options, 100));
        options.prior = prior;
        runs.push_back(Play(target, strategy, std::move(options), 100));
      }
      std::printf("  %-30s for %-30s", source.recording().name.c_str(),
                  target.recording().name.c_str());
      for (size_t i = 0; i < std::size(kPriorMarks); ++i) {
        medians[i].push_back(MedianAfter(runs, kPriorMarks[i]));
        std::printf(" %7.4f", medians[i].back());
      }
      const double without = MedianAfter(alone, 50);
      const bool is_worse = MedianAfter(runs, 50) > without * 1.0005;
      worse += is_worse;
      std::printf("  without, at 50: %7.4f%s\n", without, is_worse ? " better" : "");
      std::fflush(stdout);
    }
  }
  std::printf("%-34s median over %zu pairs", strategy.c_str(), medians[0].size());
  for (size_t i = 0; i < std::size(kPriorMarks); ++i) {
    std::printf("  %llu: %.4f", static_cast<unsigned long long>(kPriorMarks[i]),
                Quantile(medians[i], 0.5));
  }
  std::printf("  worse at 50 than without: %zu\n", worse);
}

bool Parse(int argc, char** argv, Flags& flags) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (absl::ConsumePrefix(&arg, "--strategies=")) {
      flags.strategies = absl::StrSplit(arg, ',');
    } else if (absl::ConsumePrefix(&arg, "--only=")) {
      flags.only = std::string(arg);
    } else if (arg == "--score") {
      flags.score = true;
    } else if (arg == "--prior") {
      flags.prior = true;
    } else if (absl::ConsumePrefix(&arg, "--seeds=")) {
      if (!absl::SimpleAtoi(arg, &flags.seeds)) return false;
    } else if (absl::ConsumePrefix(&arg, "--in-flight=")) {
      if (!absl::SimpleAtoi(arg, &flags.in_flight) || flags.in_flight == 0) return false;
    } else if (absl::ConsumePrefix(&arg, "--budget=")) {
      if (!absl::SimpleAtoi(arg, &flags.budget)) return false;
    } else if (flags.folder.empty() && !absl::StartsWith(arg, "-")) {
      flags.folder = std::string(arg);
    } else {
      return false;
    }
  }
  return !flags.folder.empty() && flags.seeds > 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  if (!Parse(argc, argv, flags)) {
    std::fprintf(stderr,
                 "usage: strategy_benchmark FOLDER [--strategies=a,b] [--seeds=50] "
                 "[--in-flight=1] [--budget=200] [--only=TEXT] [--score] [--prior]\n");
    return 2;
  }
  const std::vector<RecordedSpace> spaces = LoadFolder(flags);
  if (spaces.empty()) {
    std::fprintf(stderr, "%s holds no recordings (NAME.json with NAME.csv.gz)\n",
                 flags.folder.c_str());
    return 1;
  }
  for (const std::string& strategy : flags.strategies) {
    if (flags.prior) {
      ComparePriors(flags, spaces, strategy);
    } else {
      Compare(flags, spaces, strategy);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tune

int main(int argc, char** argv) { return tune::Main(argc, argv); }
