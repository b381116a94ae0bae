// SPDX-License-Identifier: Apache-2.0
// How good the choice between tuned shapes is: leaves each shape of a grid out, asks the others,
// and compares with the shape's own sweep. The figures of docs/lookup.md are this program's.
//
// FOLDER holds recordings in the neutral form, of one kernel several shapes.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/tuner/transfer/recorded_grids.h"

namespace tune {
namespace {

void PrintFigures(const std::string& name, const LeftOutFigures& figures) {
  absl::PrintF(
      "%-44s %3d shapes  loss median %5.2f %%  95th %5.2f %%  mean %5.2f %%"
      "  nearest's mean %5.2f %%  ratio %4.2f  bias %+5.2f %%  covered %3.0f %%\n",
      name, figures.count, 100 * figures.loss_median, 100 * figures.loss_95,
      100 * figures.loss_mean, 100 * figures.nearest_mean,
      figures.nearest_mean > 0 ? figures.loss_mean / figures.nearest_mean : 1, 100 * figures.bias,
      100 * figures.covered);
}

void PrintShape(const ShapeGrid& grid, const LeftOut& left) {
  absl::PrintF("    %-24s lost %6.2f %%  expected %6.2f %% (%.2f to %.2f)  nearest's %6.2f %%\n",
               absl::StrJoin(grid.shapes[left.shape].dims, " "), 100 * left.loss,
               100 * left.choice.loss, 100 * left.choice.loss_low, 100 * left.choice.loss_high,
               100 * left.nearest_loss);
}

int Main(int argc, char** argv) {
  const bool verbose = argc == 3 && std::string(argv[2]) == "--shapes";
  if (argc != 2 && !verbose) {
    std::fputs("usage: shape_study FOLDER [--shapes]\n", stderr);
    return 2;
  }
  const auto grids = GridsOf(argv[1]);
  if (!grids.ok()) {
    std::fprintf(stderr, "shape_study: %s\n", grids.status().ToString().c_str());
    return 1;
  }
  std::vector<LeftOut> all;
  for (const RecordedGrid& recorded : *grids) {
    const std::vector<LeftOut> left = recorded.LeaveOneOut();
    PrintFigures(recorded.name, FiguresOf(left));
    for (const LeftOut& one : left) {
      if (verbose) PrintShape(recorded.grid, one);
    }
    all.insert(all.end(), left.begin(), left.end());
  }
  PrintFigures("all", FiguresOf(all));
  return 0;
}

}  // namespace
}  // namespace tune

int main(int argc, char** argv) { return tune::Main(argc, argv); }
