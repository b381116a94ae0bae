// SPDX-License-Identifier: Apache-2.0
// Which tiles a block of the wgmma path takes, and which rows they have.
#pragma once

#include "problem.h"

// The tiles of a block, one in each round of the grid. With sections of many heads, the longest
// tiles first, every other round goes backwards: whoever had the longest tile then has the
// shortest. With one head a section a block goes on to the next of a head's tiles in each round,
// whatever they take: the mask leaves little of some, and the sequence does not fill the last. That
// needs a grid of more than half a head's tiles, or of all tiles.
class Rounds {
 public:
  __device__ __forceinline__ explicit Rounds(const Problem& problem) : place_(blockIdx.x) {
    const int blocks = TilesOfHead(problem);
    step_ = SECTION == 1 ? (blocks + 1 - static_cast<int>(gridDim.x) % blocks) % blocks : 0;
  }
  __device__ __forceinline__ int Tile() const { return first_ + place_; }
  __device__ __forceinline__ void Next() {
    const int grid = gridDim.x;
    first_ += grid;
    place_ = SECTION == 1 ? place_ + step_ : grid - 1 - place_;
    if (place_ >= grid) place_ -= grid;
  }

 private:
  int first_ = 0;  // of the round
  int place_;
  int step_;
};

// The first row of a head's tile. A head may have fewer groups of 64 rows than its tiles have room
// for. Its last tile lacks them; with SPREAD each of the first, which the mask leaves least of, has
// one group less.
__device__ __forceinline__ int FirstRow(const Problem& problem, int block) {
  if (SPREAD == 0) return block * BLOCK_M;
  const int blocks = TilesOfHead(problem);
  const int groups = BLOCK_M / 64;
  const int missing = blocks * groups - (problem.seq + 63) / 64;
  const int behind_short_ones = groups * block - missing;
  const int among_short_ones = (groups - 1) * block;
  return 64 * (behind_short_ones > among_short_ones ? behind_short_ones : among_short_ones);
}

// Rows [row, end) of Q of one head.
struct Span : Tile {
  int end;

  // Whether a packed sequence has no rows for the tile.
  __device__ __forceinline__ bool IsEmpty() const { return PACKED && end <= row; }
};

__device__ __forceinline__ Span SpanAt(const Problem& problem, int index) {
  Tile tile = TileAt(problem, index);
  const int block = tile.row / BLOCK_M;
  tile.row = FirstRow(problem, block);
  const int end = FirstRow(problem, block + 1);
  return {tile, end < tile.seq ? end : tile.seq};
}
