// SPDX-License-Identifier: Apache-2.0
// How gemm's blocks share tiles with STREAM_K, for grids that the CPU device has not.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tune {
namespace {

bool of_last_tiles = false;

using std::max;
using std::min;
#define __device__
#define __forceinline__ inline
#define BLOCK_M 4
#define BLOCK_N 8
#define BLOCK_K 2
#define GROUP 4
#define SPLIT 1
#define CLUSTER_M 1
#define CLUSTER_N 1
#define CLUSTER_K 1
#define STREAM_K (1 + of_last_tiles)
#include "kernels/gemm/tiles.h"

struct Part {
  int block;
  int first;
  int end;
};

void CheckStream(const Problem& problem, int blocks) {
  SCOPED_TRACE(testing::Message() << problem.RowTiles() << " x " << problem.ColumnTiles() << " x "
                                  << problem.Steps() << " by " << blocks);
  std::map<std::pair<int, int>, std::map<int, Part>> parts;  // of each tile, by their place
  std::set<int> places;
  long long least = 1ll << 40, most = 0;
  for (int block = 0; block < blocks; ++block) {
    const Walk walk(problem, block, blocks);
    long long steps = 0;
    for (int i = 0; i < walk.count; ++i) {
      const Tile tile = walk.At(problem, i);
      ASSERT_LT(tile.first, tile.end);
      const bool whole = tile.first == 0 && tile.end == problem.Steps();
      ASSERT_EQ(tile.part == kWhole, whole);
      if (!whole) {
        ASSERT_TRUE(places.insert(tile.part).second && tile.part < 2 * blocks) << tile.part;
      }
      auto& of_tile = parts[{tile.row, tile.column}];
      ASSERT_TRUE(of_tile.try_emplace(tile.part, Part{block, tile.first, tile.end}).second);
      steps += tile.end - tile.first;
    }
    least = min(least, steps);
    most = max(most, steps);
  }
  EXPECT_LE(most - least, 1) << "shares are equal";
  ASSERT_EQ(parts.size(), static_cast<size_t>(problem.RowTiles() * problem.ColumnTiles()));
  size_t added = 0;
  for (int block = 0; block < blocks; ++block) {
    const SharedTile shared = Stream(problem, blocks).SharedFrom(block);
    if (shared.count == 0) continue;
    const Tile tile = TileAt(problem, shared.index, 0);
    const auto& of_tile = parts.at({tile.row, tile.column});
    ASSERT_EQ(of_tile.size(), static_cast<size_t>(shared.count));
    int end = 0;
    for (int i = 0; i < shared.count; ++i) {
      const Part& part = of_tile.at(shared.Place(i));
      EXPECT_EQ(part.first, end);
      end = part.end;
    }
    EXPECT_EQ(end, problem.Steps());
    added += static_cast<size_t>(shared.count);
  }
  EXPECT_EQ(added, places.size()) << "every part is added once";
}

TEST(GemmStream, EveryStepIsTakenAndEveryPartAddedOnce) {
  for (const int blocks : {1, 2, 3, 7, 64, 132}) {
    for (const int rows : {1, 2, 5, 16}) {
      for (const int columns : {1, 3, 33}) {
        for (const int steps : {1, 2, 7, 128}) {
          const Problem problem = {rows * BLOCK_M - 1, columns * BLOCK_N, steps * BLOCK_K};
          for (const bool last : {false, true}) {
            of_last_tiles = last;
            CheckStream(problem, min(blocks, rows * columns * steps));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tune
