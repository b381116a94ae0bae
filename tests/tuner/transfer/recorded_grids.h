// SPDX-License-Identifier: Apache-2.0
// Grids of shapes out of a folder of recordings, to hold the model between shapes to what was
// measured. The test and bench/studies/shape_study read the same.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "kernels/catalogue.h"
#include "server/wire/spec.h"
#include "tuner/device/replay/formats.h"
#include "tuner/kernel/kernel.h"
#include "tuner/kernel/launch_sizes_of.h"
#include "tuner/transfer/shape_grid.h"
#include "tuner/transfer/waves.h"

namespace tune {

// A shape's whole sweep: shares that its configs lose against its best, by their text.
using RecordedLosses = std::map<std::string, double>;

struct RecordedGrid {
  std::string name;  // "softmax f32 on NVIDIA H200"
  ShapeGrid grid;
  std::vector<RecordedLosses> losses;  // of grid.shapes

  // By the whole sweep, not only by what the grid keeps of it.
  std::vector<LeftOut> LeaveOneOut() const {
    return tune::LeaveOneOut(grid, [this](size_t shape, const Config& config) {
      const auto found = losses[shape].find(ToText(config));
      return found == losses[shape].end() ? std::nullopt : std::optional(found->second);
    });
  }
};

// Dims that must be equal, as the catalogue's specs have them.
inline bool MustBeEqual(const std::string& dim) {
  static const std::set<std::string> kModes = {"causal",      "interleaved", "backward",
                                               "transpose_a", "transpose_b", "epilogue",
                                               "residual",    "gradient",    "head_dim"};
  return kModes.contains(dim);
}

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline absl::StatusOr<replay::Recording> ReadRecordingAt(const std::filesystem::path& json) {
  std::vector<replay::RecordingFile> files;
  for (const std::string& name :
       {json.filename().string(), absl::StrCat(json.stem().string(), ".csv.gz")}) {
    files.push_back({name, ReadText(json.parent_path() / name)});
  }
  return replay::ReadRecording(files);
}

// A kernel of the catalogue, or the one in Triton of the examples.
inline absl::StatusOr<std::shared_ptr<const Kernel>> RecordedKernel(const std::string& name) {
  if (name != "triton-matmul") {
    ASSIGN_OR_RETURN(const std::vector<CatalogueEntry> catalogue, LoadCatalogue());
    for (const CatalogueEntry& entry : catalogue) {
      if (entry.name != name) continue;
      return server::ReadKernel(entry.spec_name, entry.spec_text, entry.files);
    }
    return absl::NotFoundError(absl::StrCat("the catalogue has no ", name));
  }
  const std::filesystem::path folder =
      std::filesystem::path(TUNE_PROJECT_DIR) / "docs/examples/triton_matmul";
  std::string spec;
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".textproto") spec = entry.path().filename().string();
    files[entry.path().filename().string()] = ReadText(entry.path());
  }
  return server::ReadKernel(spec, files[spec], files);
}

// The target of recordings made on GPUs.
inline constexpr char kRecordedTarget[] = "sm_90a";

// The whole sweep. `launches`: null on the CPU device.
inline SweptShape SweptShapeOf(const replay::Recording& recording, std::vector<int64_t> dims,
                               const std::shared_ptr<LaunchSizes>& launches,
                               const TargetTraits& traits) {
  SweptShape swept{.dims = std::move(dims)};
  if (launches != nullptr) {
    swept.blocks_of = [launches](const Config& config) { return launches->Blocks(config); };
  }
  for (size_t i = 0; i < recording.trials.size(); ++i) {
    const replay::RecordedTrial& trial = recording.trials[i];
    if (trial.outcome != Outcome::kOk) continue;
    SweptConfig& one = swept.configs.emplace_back(
        SweptConfig{.config = recording.ConfigOf(i), .latency_ns = trial.latency_ns});
    if (launches == nullptr) continue;
    const LaunchSize size = launches->Of(one.config);
    // A recording has the total of shared memory, if it has any.
    one.residents =
        ResidentBlocks(traits.sm, traits.max_shared_bytes,
                       {.threads = size.threads,
                        .registers = trial.registers,
                        .shared_bytes = std::max(trial.shared_bytes, size.shared_bytes)});
  }
  std::stable_sort(swept.configs.begin(), swept.configs.end(),
                   [](const auto& a, const auto& b) { return a.latency_ns < b.latency_ns; });
  return swept;
}

inline RecordedLosses LossesOf(const SweptShape& swept) {
  RecordedLosses losses;
  const double best_ns = swept.configs.front().latency_ns;
  for (const SweptConfig& one : swept.configs) {
    losses[ToText(one.config)] = one.latency_ns / best_ns - 1;
  }
  return losses;
}

// Keeps as many configs as the daemon reads from its store.
inline void KeepFastest(SweptShape& swept) {
  swept.has_more = swept.configs.size() > kGridConfigsRead;
  if (swept.has_more) swept.configs.resize(kGridConfigsRead);
}

// A recording's problem.
struct RecordedProblem {
  std::string name;  // all but the dims that may differ: "softmax bf16"
  Problem problem;
  std::map<std::string, int64_t> may_differ;
};

inline absl::StatusOr<RecordedProblem> RecordedProblemOf(const replay::Recording& recording) {
  RecordedProblem recorded{.name = recording.kernel};
  for (absl::string_view word : absl::StrSplit(recording.problem, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> dim = absl::StrSplit(word, absl::MaxSplits('=', 1));
    int64_t value = 0;
    const bool is_dim = absl::SimpleAtoi(dim.second, &value);
    if (is_dim) {
      recorded.problem.dims.emplace_back(dim.first, value);
    } else {
      ASSIGN_OR_RETURN(recorded.problem.dtype, ParseDType(std::string(word)));
    }
    if (is_dim && !MustBeEqual(dim.first)) {
      recorded.may_differ[dim.first] = value;
    } else {
      absl::StrAppend(&recorded.name, " ", word);
    }
  }
  return recorded;
}

// Grids of three shapes or more, by name.
inline absl::StatusOr<std::vector<RecordedGrid>> GridsOf(const std::filesystem::path& folder) {
  struct Sweeps {
    std::vector<std::string> axes;
    std::vector<SweptShape> shapes;
    std::map<std::vector<int64_t>, RecordedLosses> losses;
    int64_t multiprocessors = 0;
  };
  ASSIGN_OR_RETURN(const TargetTraits traits, TargetTraitsFor(kRecordedTarget));
  std::map<std::string, Sweeps> by_name;
  std::map<std::string, std::shared_ptr<const Kernel>> kernels;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    ASSIGN_OR_RETURN(const replay::Recording recording, ReadRecordingAt(path));
    ASSIGN_OR_RETURN(const RecordedProblem recorded, RecordedProblemOf(recording));
    Sweeps& sweeps = by_name[absl::StrCat(recorded.name, " on ", recording.device)];
    std::shared_ptr<LaunchSizes> launches;
    if (!absl::StartsWith(recording.device, "cpu")) {
      std::shared_ptr<const Kernel>& kernel = kernels[recording.kernel];
      if (kernel == nullptr) {
        ASSIGN_OR_RETURN(kernel, RecordedKernel(recording.kernel));
      }
      // With the dims that the kernel has got since.
      const auto& dims = recorded.problem.dims;
      ASSIGN_OR_RETURN(
          const Problem problem,
          kernel->MakeProblem({dims.begin(), dims.end()},
                              std::string(ToText(recorded.problem.dtype)), kRecordedTarget));
      launches = std::make_shared<LaunchSizes>(LaunchSizesOf(*kernel, problem, kRecordedTarget));
      sweeps.multiprocessors = traits.sm_count;
    }
    std::vector<int64_t> dims;
    sweeps.axes.clear();
    for (const auto& [axis, value] : recorded.may_differ) {
      sweeps.axes.push_back(axis);
      dims.push_back(value);
    }
    SweptShape swept = SweptShapeOf(recording, dims, launches, traits);
    sweeps.losses[dims] = LossesOf(swept);
    KeepFastest(swept);
    sweeps.shapes.push_back(std::move(swept));
  }
  std::vector<RecordedGrid> grids;
  for (auto& [name, sweeps] : by_name) {
    if (sweeps.shapes.size() < 3) continue;
    RecordedGrid& recorded = grids.emplace_back(RecordedGrid{
        .name = name, .grid = MakeShapeGrid(sweeps.axes, sweeps.shapes, sweeps.multiprocessors)});
    for (const ShapeGrid::Shape& shape : recorded.grid.shapes) {
      recorded.losses.push_back(sweeps.losses[shape.dims]);
    }
  }
  return grids;
}

// The figures of leaving out each shape of some grids, as shares.
struct LeftOutFigures {
  size_t count = 0;
  double loss_median = 0;
  double loss_95 = 0;  // 95th percentile
  double loss_mean = 0;
  double nearest_mean = 0;  // of the nearest shape's winner
  double bias = 0;          // of the stated expectation: what was lost beyond it
  double covered = 0;       // share of losses within the stated band
};

inline LeftOutFigures FiguresOf(const std::vector<LeftOut>& all) {
  LeftOutFigures figures{.count = all.size()};
  if (all.empty()) return figures;
  std::vector<double> losses;
  const double count = static_cast<double>(all.size());
  for (const LeftOut& left : all) {
    losses.push_back(left.loss);
    figures.loss_mean += left.loss / count;
    figures.nearest_mean += left.nearest_loss / count;
    figures.bias += (left.loss - left.choice.loss) / count;
    // A grid stores whole ten-thousandths.
    const bool inside =
        left.loss >= left.choice.loss_low - 5e-5 && left.loss <= left.choice.loss_high + 5e-5;
    figures.covered += (inside ? 1 : 0) / count;
  }
  std::sort(losses.begin(), losses.end());
  figures.loss_median = losses[losses.size() / 2];
  figures.loss_95 = losses[std::min(losses.size() - 1, losses.size() * 95 / 100)];
  return figures;
}

}  // namespace tune
