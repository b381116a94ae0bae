// SPDX-License-Identifier: Apache-2.0
// The largest value of each row and where it is, by cooperative groups and standard headers: the
// same text on every device.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cassert>
#include <cfloat>
#include <climits>
#include <cstdint>

namespace cg = cooperative_groups;

__global__ void row_max(const float* x, float* largest, int32_t* where, int32_t cols) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<TILE>(block);
  __shared__ float values[THREADS / TILE];
  __shared__ int32_t places[THREADS / TILE];
  assert(block.size() == THREADS);
  const float* row = x + int64_t{blockIdx.x} * cols;
  float best = -FLT_MAX;
  int32_t place = INT_MAX;
  for (int32_t i = block.thread_rank(); i < cols; i += THREADS) {
    if (row[i] > best) {
      best = row[i];
      place = i;
    }
  }
  const float top = cg::reduce(tile, best, cg::greater<float>());
  place = cg::reduce(tile, best == top ? place : INT_MAX, cg::less<int32_t>());
  if (tile.thread_rank() == 0) {
    values[tile.meta_group_rank()] = top;
    places[tile.meta_group_rank()] = place;
  }
  block.sync();
  if (block.thread_rank() != 0) return;
  for (int32_t i = 1; i < THREADS / TILE; ++i) {
    if (values[i] < values[0] || (values[i] == values[0] && places[i] > places[0])) continue;
    values[0] = values[i];
    places[0] = places[i];
  }
  largest[blockIdx.x] = values[0];
  where[blockIdx.x] = places[0];
}

#if TUNE_REFERENCE
__global__ void row_max_reference(const float* x, double* largest, int32_t* where, int32_t cols) {
  const float* row = x + int64_t{blockIdx.x} * cols;
  int32_t best = 0;
  for (int32_t i = 1; i < cols; ++i) best = row[i] > row[best] ? i : best;
  largest[blockIdx.x] = row[best];
  where[blockIdx.x] = best;
}
#endif
