// SPDX-License-Identifier: Apache-2.0
// Parts that every path shares: the problem's sizes, how the work is cut, the order of the tiles.
#pragma once

// op(A) is [m, k], op(B) is [k, n], C is [m, n]; all row-major. A is stored [m, k], or [k, m] with
// TRANSPOSE_A; B is stored [k, n], or [n, k] with TRANSPOSE_B.
struct Problem {
  int m;
  int n;
  int k;

  __device__ int RowTiles() const { return (m + BLOCK_M - 1) / BLOCK_M; }
  __device__ int ColumnTiles() const { return (n + BLOCK_N - 1) / BLOCK_N; }
  __device__ int Steps() const { return (k + BLOCK_K - 1) / BLOCK_K; }
};

// A tile of C, or a part of its sums. A block takes the steps [first, end) of k.
struct Tile {
  int row;
  int column;
  int part;  // of SPLIT: which; with STREAM_K: its place among the partial tiles; kWhole for none
  int first;
  int end;
};

// Clusters of tiles: CLUSTER_M x CLUSTER_N of them are worked on at the same time, and each by
// CLUSTER_K blocks.
__device__ __forceinline__ int ClusterRows(const Problem& problem) {
  return (problem.RowTiles() + CLUSTER_M - 1) / CLUSTER_M;
}
__device__ __forceinline__ int ClusterColumns(const Problem& problem) {
  return (problem.ColumnTiles() + CLUSTER_N - 1) / CLUSTER_N;
}
__device__ __forceinline__ int Clusters(const Problem& problem) {
  return ClusterRows(problem) * ClusterColumns(problem) * SPLIT;
}

// The tile of block `rank` of a cluster. Clusters go down GROUP rows of C, then to the next column,
// so that those at work at the same time share what they read of A and B in L2.
__device__ __forceinline__ Tile TileAt(const Problem& problem, int index, int rank) {
  const int rows = ClusterRows(problem);
  const int columns = ClusterColumns(problem);
  const int split = index / (rows * columns);
  const int place = index % (rows * columns);
  const int first_row = place / (GROUP * columns) * GROUP;
  const int rest = place % (GROUP * columns);
  const int count = rows - first_row < GROUP ? rows - first_row : GROUP;
  const int row = (first_row + rest % count) * CLUSTER_M + rank % CLUSTER_M;
  const int column = rest / count * CLUSTER_N + rank / CLUSTER_M % CLUSTER_N;
  const int share = split * CLUSTER_K + rank / (CLUSTER_M * CLUSTER_N);
  const long long steps = problem.Steps();
  return {row * BLOCK_M, column * BLOCK_N, split,
          static_cast<int>(steps * share / (SPLIT * CLUSTER_K)),
          static_cast<int>(steps * (share + 1) / (SPLIT * CLUSTER_K))};
}

#if STREAM_K > 0
static_assert(SPLIT == 1 && CLUSTER_M * CLUSTER_N * CLUSTER_K == 1, "shares are of blocks alone");
constexpr int kWhole = -1;

// A tile that `count` blocks from `first` on have parts of.
struct SharedTile {
  int index;
  int first;
  int count;

  // The place of the i-th of them among the partial tiles.
  __device__ __forceinline__ int Place(int i) const {
    return i == 0 ? 2 * first + 1 : 2 * (first + i);
  }
};

// The steps of tiles one behind the other, of which each of `blocks` blocks takes an equal share.
// With STREAM_K 2 these are not all tiles: as many rounds of whole tiles go before as leave each
// block a share of one tile to two.
struct Stream {
  int rounds;  // of whole tiles
  int steps;   // of a tile
  int blocks;
  long long length;  // steps of all tiles that are shared out

  __device__ __forceinline__ Stream(const Problem& problem, int blocks_in)
      : rounds(0), steps(problem.Steps()), blocks(blocks_in) {
    const int tiles = Clusters(problem);
    if (STREAM_K == 2) rounds = tiles % blocks == 0 ? tiles / blocks : max(tiles / blocks - 1, 0);
    length = static_cast<long long>(tiles - rounds * blocks) * steps;
  }
  // The first step of a block; that of the block behind the last is the stream's end.
  __device__ __forceinline__ long long Begin(int block) const { return length * block / blocks; }

  // The tile that a block has the first steps of and others the rest; of 0 blocks if there is none.
  __device__ __forceinline__ SharedTile SharedFrom(int block) const {
    const long long border = Begin(block + 1);
    const long long start = border / steps * steps;
    if (border == start || Begin(block) > start) return {0, block, 0};
    int count = 2;
    while (Begin(block + count) < start + steps) ++count;
    return {rounds * blocks + static_cast<int>(start / steps), block, count};
  }
};

// The tiles and parts of tiles that a block has, one after the other. Of a tile that several have,
// all but the first begin behind its first step.
struct Walk {
  Stream stream;
  int block;
  long long begin;
  long long end;
  int count;

  __device__ __forceinline__ Walk(const Problem& problem, int block_in, int blocks)
      : stream(problem, blocks), block(block_in), begin(stream.Begin(block)),
        end(stream.Begin(block + 1)), count(stream.rounds) {
    if (end > begin) {
      count += static_cast<int>((end - 1) / stream.steps - begin / stream.steps) + 1;
    }
  }
  __device__ __forceinline__ Tile At(const Problem& problem, int i) const {
    const bool shared_out = i >= stream.rounds;
    const int place = static_cast<int>(begin / stream.steps) + i - stream.rounds;
    Tile tile = TileAt(problem, shared_out ? stream.rounds * stream.blocks + place
                                           : i * stream.blocks + block, 0);
    tile.part = kWhole;
    if (!shared_out) return tile;
    const long long start = static_cast<long long>(place) * stream.steps;
    tile.first = static_cast<int>(max(begin - start, 0ll));
    tile.end = static_cast<int>(min(end - start, static_cast<long long>(stream.steps)));
    const bool whole = tile.first == 0 && tile.end == stream.steps;
    tile.part = whole ? kWhole : 2 * block + (tile.first == 0 ? 1 : 0);
    return tile;
  }
};
#else
// The clusters of tiles that a block's cluster has: every `stride`-th.
struct Walk {
  int first;
  int stride;
  int rank;
  int count;

  __device__ __forceinline__ Walk(const Problem& problem, int cluster, int clusters, int rank_in)
      : first(cluster), stride(clusters), rank(rank_in),
        count((Clusters(problem) - cluster + clusters - 1) / clusters) {}
  __device__ __forceinline__ Tile At(const Problem& problem, int i) const {
    return TileAt(problem, first + i * stride, rank);
  }
};
#endif
