// SPDX-License-Identifier: Apache-2.0
// Grids of shapes out of a folder of recordings, to hold the model between shapes to what was
// measured. The test and bench/shape_study read the same.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tuner/device/replay/formats.h"
#include "tuner/status_macros.h"
#include "tuner/transfer/shape_grid.h"

namespace tune {

struct RecordedGrid {
  std::string name;  // "softmax f32 on NVIDIA H200"
  ShapeGrid grid;
};

// Dims that must be equal, as the catalogue's specs have them.
inline bool MustBeEqual(const std::string& dim) {
  static const std::set<std::string> kModes = {"causal",      "interleaved", "backward",
                                               "transpose_a", "transpose_b", "epilogue",
                                               "residual",    "gradient",    "head_dim"};
  return kModes.contains(dim);
}

inline absl::StatusOr<replay::Recording> ReadRecordingAt(const std::filesystem::path& json) {
  std::vector<replay::RecordingFile> files;
  for (const std::string& name :
       {json.filename().string(), absl::StrCat(json.stem().string(), ".csv.gz")}) {
    std::ifstream in(json.parent_path() / name, std::ios::binary);
    files.push_back({name, std::string(std::istreambuf_iterator<char>(in), {})});
  }
  return replay::ReadRecording(files);
}

inline SweptShape SweptShapeOf(const replay::Recording& recording, std::vector<int64_t> dims) {
  SweptShape swept{.dims = std::move(dims)};
  for (size_t i = 0; i < recording.trials.size(); ++i) {
    const replay::RecordedTrial& trial = recording.trials[i];
    if (trial.outcome != Outcome::kOk) continue;
    swept.latencies_ns.emplace_back(recording.ConfigOf(i), trial.latency_ns);
  }
  std::stable_sort(swept.latencies_ns.begin(), swept.latencies_ns.end(),
                   [](const auto& a, const auto& b) { return a.second < b.second; });
  swept.has_more = swept.latencies_ns.size() > kGridConfigsMax;
  if (swept.has_more) swept.latencies_ns.resize(kGridConfigsMax);
  return swept;
}

// Grids of three shapes or more, by name.
inline absl::StatusOr<std::vector<RecordedGrid>> GridsOf(const std::filesystem::path& folder) {
  struct Sweeps {
    std::vector<std::string> axes;
    std::vector<SweptShape> shapes;
  };
  std::map<std::string, Sweeps> by_name;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    ASSIGN_OR_RETURN(const replay::Recording recording, ReadRecordingAt(path));
    std::string name = recording.kernel;
    std::map<std::string, int64_t> may_differ;
    for (absl::string_view word : absl::StrSplit(recording.problem, ' ', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> dim = absl::StrSplit(word, absl::MaxSplits('=', 1));
      int64_t value = 0;
      const bool is_dim = absl::SimpleAtoi(dim.second, &value);
      if (is_dim && !MustBeEqual(dim.first)) {
        may_differ[dim.first] = value;
      } else {
        absl::StrAppend(&name, " ", word);
      }
    }
    Sweeps& sweeps = by_name[absl::StrCat(name, " on ", recording.device)];
    std::vector<int64_t> dims;
    sweeps.axes.clear();
    for (const auto& [axis, value] : may_differ) {
      sweeps.axes.push_back(axis);
      dims.push_back(value);
    }
    sweeps.shapes.push_back(SweptShapeOf(recording, std::move(dims)));
  }
  std::vector<RecordedGrid> grids;
  for (auto& [name, sweeps] : by_name) {
    if (sweeps.shapes.size() < 3) continue;
    grids.push_back({name, MakeShapeGrid(sweeps.axes, sweeps.shapes)});
  }
  return grids;
}

// What leaving out each shape of some grids comes to. Shares.
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
    // Losses are whole ten-thousandths.
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
