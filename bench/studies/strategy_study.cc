// SPDX-License-Identifier: Apache-2.0
// How good the strategies are on recorded spaces. The figures of docs/strategies.md are this
// program's.
//
// FOLDER holds recordings in the neutral form: NAME.json and NAME.csv.gz. Each trial is one of a
// config never tried before; a failed one counts. A cell is a strategy on a recording, played with
// many seeds; cells are printed as they finish.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tuner/device/replay/comparison.h"
#include "tuner/device/replay/formats.h"
#include "tuner/device/replay/play.h"
#include "tuner/device/replay/recording.h"
#include "tuner/device/replay/score.h"
#include "tuner/statistics/signed_rank.h"
#include "tuner/strategies/strategy.h"

namespace tune {
namespace {

using nlohmann::json;
using replay::MethodologyScore;
using replay::Played;
using replay::RecordedSpace;
using Clock = std::chrono::steady_clock;

constexpr char kUsage[] =
    "usage: strategy_study FOLDER [--studies=sequential,in_flight,in_flight_timed,prior,score]\n"
    "           [--strategies=auto,...]  of sequential and score; by default all\n"
    "           [--seeds=50] [--score-seeds=25] [--prior-seeds=50] [--in-flight=32]\n"
    "           [--only=TEXT]            recordings with this in their name\n"
    "           [--threads=N]            by default one a core\n"
    "           [--limit-seconds=N]      starts no run after that; what is done is reported\n"
    "           [--out=FILE]             everything as JSON\n";

struct Flags {
  std::string folder;
  std::vector<std::string> studies = {"sequential", "in_flight", "in_flight_timed", "prior",
                                      "score"};
  std::vector<std::string> strategies = StrategyNames();
  uint32_t seeds = 50;
  uint32_t score_seeds = 25;
  uint32_t prior_seeds = 50;
  uint32_t in_flight = 32;
  std::string only;
  uint32_t threads = std::max(1U, std::thread::hardware_concurrency());
  double limit_seconds = INFINITY;
  std::string out;
};

constexpr uint64_t kMarks[] = {25, 50, 100, 200};
constexpr uint64_t kBudget = 200;
constexpr uint64_t kPriorMarks[] = {1, 10, 15, 25, 50, 100};
constexpr uint64_t kPriorBudget = 100;
// The median may not be worse with a prior by more than this: a hundredth of what is measurable.
constexpr double kWorse = 1.0005;
// The probability with which chance alone fails a study, divided among its pairs.
constexpr double kChance = 0.01;

// The prior knowledge of a cell.
enum class Given { kNothing, kRecording, kInverted, kShuffled };

struct Cell {
  std::string study;
  std::string strategy;
  const RecordedSpace* space = nullptr;
  uint64_t budget = kBudget;
  uint32_t in_flight = 1;
  uint32_t seeds = 0;
  Given given = Given::kNothing;
  const RecordedSpace* source = nullptr;  // kRecording
  std::vector<PriorObservation> prior;
  // By seed - 1; a run that was never started is empty.
  std::vector<Played> runs;
  uint32_t finished = 0;
};

std::string Name(const RecordedSpace& space) { return space.recording().name; }

std::string GivenName(const Cell& cell) {
  switch (cell.given) {
    case Given::kNothing:
      return "nothing";
    case Given::kRecording:
      return Name(*cell.source);
    case Given::kInverted:
      return "inverted";
    case Given::kShuffled:
      return "shuffled";
  }
  return "";
}

double BestAfter(const Played& run, uint64_t trials) {
  return run.best_ns[std::min<size_t>(trials, run.best_ns.size()) - 1];
}

// The best after some trials over the optimum: a median over the runs that there are.
double MedianAfter(const Cell& cell, uint64_t trials) {
  std::vector<double> ratios;
  for (const Played& run : cell.runs) {
    if (run.best_ns.empty()) continue;
    ratios.push_back(BestAfter(run, trials) / cell.space->optimum_ns());
  }
  if (ratios.empty()) return NAN;
  std::sort(ratios.begin(), ratios.end());
  return replay::QuantileOf(ratios, 0.5);
}

// The best after some trials, in each run that both have, one over the other.
std::vector<double> LogRatiosAfter(const Cell& cell, const Cell& other, uint64_t trials) {
  std::vector<double> ratios;
  for (size_t run = 0; run < std::min(cell.runs.size(), other.runs.size()); ++run) {
    if (cell.runs[run].best_ns.empty() || other.runs[run].best_ns.empty()) continue;
    ratios.push_back(
        std::log(BestAfter(cell.runs[run], trials) / BestAfter(other.runs[run], trials)));
  }
  return ratios;
}

double Score(const Cell& cell) {
  std::vector<std::vector<double>> runs;
  for (const Played& run : cell.runs) {
    if (!run.best_ns.empty()) runs.push_back(run.best_ns);
  }
  return runs.empty() ? NAN : MethodologyScore(cell.space->recording()).Of(runs);
}

absl::Span<const uint64_t> MarksOf(const Cell& cell) {
  if (cell.study == "prior") return kPriorMarks;
  return kMarks;
}

std::string CellLine(const Cell& cell) {
  std::string line =
      absl::StrFormat("%-15s %-22s %-30s", cell.study, cell.strategy, Name(*cell.space));
  if (cell.study == "prior") absl::StrAppendFormat(&line, " given %-30s", GivenName(cell));
  if (cell.study == "score") {
    absl::StrAppendFormat(&line, " K %4d  score %6.3f", cell.budget, Score(cell));
  } else {
    for (const uint64_t mark : MarksOf(cell)) {
      absl::StrAppendFormat(&line, " %7.4f", MedianAfter(cell, mark));
    }
  }
  if (cell.finished < cell.seeds) {
    absl::StrAppendFormat(&line, "  %d of %d seeds", cell.finished, cell.seeds);
  }
  return line;
}

// Plays the cells' runs on all threads, the cells in their order.
class Player {
 public:
  Player(const Flags& flags, std::vector<Cell>& cells)
      : cells_(cells), end_(Clock::now() + Limit(flags)) {
    for (size_t cell = 0; cell < cells.size(); ++cell) {
      cells[cell].runs.resize(cells[cell].seeds);
      for (uint32_t seed = 1; seed <= cells[cell].seeds; ++seed) runs_.push_back({cell, seed});
    }
  }

  void Go(uint32_t thread_count) {
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < thread_count; ++i) threads.emplace_back([this] { Work(); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  struct Run {
    size_t cell = 0;
    uint32_t seed = 0;
  };

  static Clock::duration Limit(const Flags& flags) {
    const double seconds = std::min(flags.limit_seconds, 1e6);
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void Work() {
    for (size_t i = next_++; i < runs_.size() && Clock::now() < end_; i = next_++) {
      Cell& cell = cells_[runs_[i].cell];
      replay::PlayOptions options{.strategy = cell.strategy,
                                  .seed = runs_[i].seed,
                                  .in_flight = cell.in_flight,
                                  .prior = cell.prior};
      options.budget.trials = cell.budget;
      Played played = replay::Play(*cell.space, options).value();
      const std::lock_guard<std::mutex> lock(mutex_);
      cell.runs[runs_[i].seed - 1] = std::move(played);
      if (++cell.finished < cell.seeds) continue;
      std::printf("%s\n", CellLine(cell).c_str());
      std::fflush(stdout);
    }
  }

  std::vector<Cell>& cells_;
  const Clock::time_point end_;
  std::vector<Run> runs_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;  // guards what is printed, and a cell's runs while some are missing
};

// A prior in which the fastest configs are slowest, or in random order.
std::vector<PriorObservation> Misleading(const RecordedSpace& space, Given given) {
  std::vector<PriorObservation> prior =
      replay::PriorOf(space.recording(), 0, replay::kPriorTrialsMax);
  std::erase_if(prior, [](const PriorObservation& of) { return of.outcome != Outcome::kOk; });
  std::vector<double> ratios;
  for (const PriorObservation& of : prior) ratios.push_back(of.relative_latency);
  if (given == Given::kInverted) {
    std::reverse(ratios.begin(), ratios.end());
  } else {
    uint64_t state = 1;  // of a linear congruential generator: Knuth's MMIX
    for (size_t i = ratios.size(); i > 1; --i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      std::swap(ratios[i - 1], ratios[(state >> 33) % i]);
    }
  }
  for (size_t i = 0; i < prior.size(); ++i) prior[i].relative_latency = ratios[i];
  return prior;
}

class Plan {
 public:
  // `untimed` are the same spaces without what the trials took.
  Plan(const Flags& flags, const std::vector<RecordedSpace>& spaces,
       const std::vector<RecordedSpace>& untimed)
      : flags_(flags), spaces_(spaces), untimed_(untimed) {}

  std::vector<Cell> Cells() {
    for (const std::string& study : flags_.studies) {
      if (study == "prior") {
        AddPriors();
      } else {
        AddStudy(study);
      }
    }
    return std::move(cells_);
  }

 private:
  void AddStudy(const std::string& study) {
    const size_t first = cells_.size();
    const bool many = absl::StartsWith(study, "in_flight");
    for (const std::string& strategy : flags_.strategies) {
      if (many && strategy != kDefaultStrategy) continue;
      for (const RecordedSpace& space : study == "in_flight" ? untimed_ : spaces_) {
        Cell cell{.study = study, .strategy = strategy, .space = &space, .seeds = flags_.seeds};
        if (many) cell.in_flight = flags_.in_flight;
        if (study == "score") {
          cell.seeds = flags_.score_seeds;
          cell.budget = MethodologyScore(space.recording()).evaluations();
        }
        cells_.push_back(std::move(cell));
      }
    }
    // The longest runs first, so that no thread is left with one at the end.
    if (study != "score") return;
    std::stable_sort(cells_.begin() + static_cast<std::ptrdiff_t>(first), cells_.end(),
                     [](const Cell& a, const Cell& b) { return a.budget > b.budget; });
  }

  void AddPriors() {
    for (const RecordedSpace& space : spaces_) {
      AddPrior(space, Given::kNothing, nullptr, {});
      for (const RecordedSpace& source : spaces_) {
        if (&source == &space || source.recording().kernel != space.recording().kernel) continue;
        AddPrior(space, Given::kRecording, &source,
                 replay::PriorOf(source.recording(), 0, replay::kPriorTrialsMax));
      }
      for (const Given given : {Given::kInverted, Given::kShuffled}) {
        AddPrior(space, given, nullptr, Misleading(space, given));
      }
    }
  }

  void AddPrior(const RecordedSpace& space, Given given, const RecordedSpace* source,
                std::vector<PriorObservation> prior) {
    cells_.push_back({.study = "prior",
                      .strategy = std::string(kDefaultStrategy),
                      .space = &space,
                      .budget = kPriorBudget,
                      .seeds = flags_.prior_seeds,
                      .given = given,
                      .source = source,
                      .prior = std::move(prior)});
  }

  const Flags& flags_;
  const std::vector<RecordedSpace>& spaces_;
  const std::vector<RecordedSpace>& untimed_;
  std::vector<Cell> cells_;
};

std::vector<RecordedSpace> WithoutTimes(const std::vector<RecordedSpace>& spaces) {
  std::vector<RecordedSpace> untimed;
  for (const RecordedSpace& space : spaces) {
    replay::Recording recording = space.recording();
    for (replay::RecordedTrial& trial : recording.trials) trial.evaluate_seconds = 0;
    untimed.push_back(RecordedSpace::Create(std::move(recording)).value());
  }
  return untimed;
}

absl::StatusOr<RecordedSpace> Load(const std::filesystem::path& json_path) {
  std::vector<replay::RecordingFile> files;
  std::filesystem::path csv = json_path;
  csv.replace_extension(".csv.gz");
  for (const std::filesystem::path& path : {json_path, csv}) {
    std::ifstream in(path, std::ios::binary);
    files.push_back(
        {path.filename().string(), std::string(std::istreambuf_iterator<char>(in), {})});
  }
  auto recording = replay::ReadRecording(files);
  if (!recording.ok()) return recording.status();
  recording->name = json_path.stem().string();  // several recordings may share theirs
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

json CellJson(const Cell& cell) {
  json out = {{"study", cell.study},    {"strategy", cell.strategy}, {"space", Name(*cell.space)},
              {"seeds", cell.finished}, {"budget", cell.budget},     {"in_flight", cell.in_flight}};
  if (cell.study == "prior") out["given"] = GivenName(cell);
  if (cell.study == "score") {
    out["score"] = Score(cell);
    return out;
  }
  for (const uint64_t mark : MarksOf(cell)) {
    out["median_over_optimum"][absl::StrCat(mark)] = MedianAfter(cell, mark);
  }
  return out;
}

// The cells of one study with one strategy that have at least one run.
std::vector<const Cell*> Select(const std::vector<Cell>& cells, const std::string& study,
                                const std::string& strategy) {
  std::vector<const Cell*> selected;
  for (const Cell& cell : cells) {
    if (cell.study == study && cell.strategy == strategy && cell.finished > 0) {
      selected.push_back(&cell);
    }
  }
  return selected;
}

std::string CountText(const std::vector<const Cell*>& cells) {
  uint32_t least = UINT32_MAX;
  for (const Cell* cell : cells) least = std::min(least, cell->finished);
  return absl::StrFormat("%d spaces, %d seeds or more", cells.size(), least);
}

// Geometric means over the spaces of the medians, or the mean of the scores.
json Overall(const std::vector<Cell>& cells, const std::string& study,
             const std::string& strategy) {
  const std::vector<const Cell*> of = Select(cells, study, strategy);
  if (of.empty()) return nullptr;
  json out = {{"study", study}, {"strategy", strategy}, {"spaces", of.size()}};
  std::string line = absl::StrFormat("%-15s %-22s", study, strategy);
  if (study == "score") {
    double sum = 0;
    for (const Cell* cell : of) sum += Score(*cell);
    out["score"] = sum / static_cast<double>(of.size());
    absl::StrAppendFormat(&line, " mean %6.3f", sum / static_cast<double>(of.size()));
  } else {
    for (const uint64_t mark : kMarks) {
      std::vector<double> medians;
      for (const Cell* cell : of) medians.push_back(MedianAfter(*cell, mark));
      const double mean = replay::GeometricMean(medians);
      out["median_over_optimum"][absl::StrCat(mark)] = mean;
      absl::StrAppendFormat(&line, " %7.4f", mean);
    }
  }
  std::vector<double> overhead_us;
  for (const Cell* cell : of) {
    for (const Played& run : cell->runs) {
      overhead_us.insert(overhead_us.end(), run.overhead_us.begin(), run.overhead_us.end());
    }
  }
  std::sort(overhead_us.begin(), overhead_us.end());
  out["ask_and_tell_us_median"] = replay::QuantileOf(overhead_us, 0.5);
  out["ask_and_tell_us_p99"] = replay::QuantileOf(overhead_us, 0.99);
  std::printf("%s  (%s; ask and tell %.0f us at the median, %.0f at 99 %%)\n", line.c_str(),
              CountText(of).c_str(), replay::QuantileOf(overhead_us, 0.5),
              replay::QuantileOf(overhead_us, 0.99));
  return out;
}

// With the prior against without: the medians over the pairs, and where it did harm: by the
// medians, and by Wilcoxon's test of the runs, which tells that from chance.
json OverallPrior(const std::vector<Cell>& cells, bool misleading) {
  std::vector<std::vector<double>> medians(std::size(kPriorMarks));
  std::vector<std::string> worse;
  std::vector<std::pair<double, std::string>> harm_by_chance;
  std::vector<double> log_harm;
  for (const Cell* cell : Select(cells, "prior", std::string(kDefaultStrategy))) {
    if (cell->given == Given::kNothing) continue;
    if ((cell->given != Given::kRecording) != misleading) continue;
    const auto alone = std::find_if(cells.begin(), cells.end(), [&](const Cell& other) {
      return other.study == "prior" && other.given == Given::kNothing && other.space == cell->space;
    });
    for (size_t i = 0; i < medians.size(); ++i) {
      medians[i].push_back(MedianAfter(*cell, kPriorMarks[i]));
    }
    const double with = MedianAfter(*cell, 50);
    const double without = MedianAfter(*alone, 50);
    log_harm.push_back(with / without);
    const std::string pair = absl::StrCat(Name(*cell->space), " given ", GivenName(*cell));
    harm_by_chance.emplace_back(SignedRankP(LogRatiosAfter(*cell, *alone, 50)), pair);
    if (with > without * kWorse) {
      worse.push_back(absl::StrFormat("%s (%.4f, %.4f without)", pair, with, without));
    }
  }
  if (medians[0].empty()) return nullptr;
  std::vector<std::string> beyond_chance;
  for (const auto& [chance, pair] : harm_by_chance) {
    if (chance < kChance / static_cast<double>(medians[0].size())) beyond_chance.push_back(pair);
  }
  json out = {
      {"study", "prior"},           {"misleading", misleading},
      {"pairs", medians[0].size()}, {"with_over_without_at_50", replay::GeometricMean(log_harm)},
      {"worse_at_50", worse},       {"worse_at_50_beyond_chance", beyond_chance}};
  std::printf("prior           %-22s", misleading ? "made to mislead" : "another GPU's");
  for (size_t i = 0; i < medians.size(); ++i) {
    std::sort(medians[i].begin(), medians[i].end());
    const double median = replay::QuantileOf(medians[i], 0.5);
    out["median_over_optimum"][absl::StrCat(kPriorMarks[i])] = median;
    std::printf("  %d: %.4f", static_cast<int>(kPriorMarks[i]), median);
  }
  std::printf("  (%zu pairs; at 50, with over without: %.4f; worse: %zu%s%s; beyond chance: %s)\n",
              medians[0].size(), replay::GeometricMean(log_harm), worse.size(),
              worse.empty() ? "" : ": ", absl::StrJoin(worse, "; ").c_str(),
              beyond_chance.empty() ? "none" : absl::StrJoin(beyond_chance, "; ").c_str());
  return out;
}

json Report(const Flags& flags, const std::vector<Cell>& cells) {
  json out = {{"overall", json::array()}, {"cells", json::array()}};
  const auto add = [&](json overall) {
    if (!overall.is_null()) out["overall"].push_back(std::move(overall));
  };
  for (const Cell& cell : cells) {
    if (cell.finished > 0) out["cells"].push_back(CellJson(cell));
    if (cell.finished > 0 && cell.finished < cell.seeds) {
      std::printf("%s\n", CellLine(cell).c_str());
    }
  }
  std::printf("\n");
  for (const std::string& study : flags.studies) {
    if (study == "prior") {
      add(OverallPrior(cells, false));
      add(OverallPrior(cells, true));
      continue;
    }
    for (const std::string& strategy : flags.strategies) add(Overall(cells, study, strategy));
  }
  return out;
}

bool ParseOne(absl::string_view arg, Flags& flags) {
  if (absl::ConsumePrefix(&arg, "--studies=")) {
    flags.studies = absl::StrSplit(arg, ',');
    const std::vector<std::string> known = Flags().studies;
    return std::all_of(flags.studies.begin(), flags.studies.end(), [&](const std::string& study) {
      return std::find(known.begin(), known.end(), study) != known.end();
    });
  }
  if (absl::ConsumePrefix(&arg, "--strategies=")) {
    flags.strategies = absl::StrSplit(arg, ',');
    return std::none_of(flags.strategies.begin(), flags.strategies.end(),
                        [](const std::string& name) { return StrategySummary(name).empty(); });
  }
  if (absl::ConsumePrefix(&arg, "--only=")) {
    flags.only = std::string(arg);
    return true;
  }
  if (absl::ConsumePrefix(&arg, "--out=")) {
    flags.out = std::string(arg);
    return !flags.out.empty();
  }
  if (absl::ConsumePrefix(&arg, "--limit-seconds=")) {
    return absl::SimpleAtod(arg, &flags.limit_seconds) && flags.limit_seconds > 0;
  }
  const std::pair<absl::string_view, uint32_t*> numbers[] = {
      {"--seeds=", &flags.seeds},         {"--score-seeds=", &flags.score_seeds},
      {"--in-flight=", &flags.in_flight}, {"--prior-seeds=", &flags.prior_seeds},
      {"--threads=", &flags.threads},
  };
  for (const auto& [name, number] : numbers) {
    if (absl::ConsumePrefix(&arg, name)) return absl::SimpleAtoi(arg, number) && *number > 0;
  }
  if (!flags.folder.empty() || absl::StartsWith(arg, "-")) return false;
  flags.folder = std::string(arg);
  return true;
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (ParseOne(argv[i], flags)) continue;
    std::fprintf(stderr, "strategy_study: cannot take '%s'\n%s", argv[i], kUsage);
    return 2;
  }
  if (!std::filesystem::is_directory(flags.folder)) {
    std::fprintf(stderr, "strategy_study: '%s' is no folder\n%s", flags.folder.c_str(), kUsage);
    return 2;
  }
  const std::vector<RecordedSpace> spaces = LoadFolder(flags);
  if (spaces.empty()) {
    std::fprintf(stderr, "%s holds no recordings (NAME.json with NAME.csv.gz)\n",
                 flags.folder.c_str());
    return 1;
  }
  const std::vector<RecordedSpace> untimed = WithoutTimes(spaces);
  const auto start = Clock::now();
  std::vector<Cell> cells = Plan(flags, spaces, untimed).Cells();
  Player(flags, cells).Go(flags.threads);
  json report = Report(flags, cells);
  report["seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
  report["threads"] = flags.threads;
  if (flags.out.empty()) return 0;
  std::ofstream out(flags.out);
  out << report.dump(1) << "\n";
  return out.good() ? 0 : 1;
}

}  // namespace
}  // namespace tune

int main(int argc, char** argv) { return tune::Main(argc, argv); }
