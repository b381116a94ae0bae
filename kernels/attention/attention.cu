// SPDX-License-Identifier: Apache-2.0
// Attention forward, O = softmax(scale * Q K^T) V with the log-sum-exp of each row, for one of
// three instruction sets. See README.md for the layouts and what each param does.
#if TUNE_REFERENCE

#include "reference.h"

#else

#if PATH_WGMMA
#include "wgmma.h"
#elif PATH_MMA
#include "mma.h"
#else
#include "plain.h"
#endif

// Targets with the bulk copy engine pass tensor maps, whether or not the path uses them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#include "sm90.cuh"
#define TENSOR_MAPS                                                            \
  , const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map, \
      const __grid_constant__ CUtensorMap v_map
#else
#define TENSOR_MAPS
#endif

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention(const Element* __restrict__ q, const Element* __restrict__ k,
              const Element* __restrict__ v, Element* __restrict__ out, float* __restrict__ lse,
              int batch, int heads, int kv_heads, int seq, float scale TENSOR_MAPS) {
  const Problem problem = {batch, heads, kv_heads, seq, scale};
#if PATH_WGMMA
  const Maps maps = {&q_map, &k_map, &v_map};
  Attend(problem, maps, out, lse);
#else
  Attend(problem, q, k, v, out, lse);
#endif
}

#endif
