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
#define TENSOR_MAPS                                                                       \
  , const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map, \
      const __grid_constant__ CUtensorMap v_map
#else
#define TENSOR_MAPS
#endif

// Strides are in elements; the last axis has none between neighbours.
#define STRIDES(name) \
  long long name##_batch_stride, long long name##_head_stride, long long name##_row_stride
#define STRIDED(name)                                                    \
  {                                                                      \
    name, { name##_batch_stride, name##_head_stride, name##_row_stride } \
  }

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention(const Element* __restrict__ q, const Element* __restrict__ k,
              const Element* __restrict__ v, const float* __restrict__ sinks,
              const int* __restrict__ starts, Element* __restrict__ out, float* __restrict__ lse,
              int batch, int heads, int kv_heads, int seq, int keys, int window, int sequences,
              float scale, float cap, STRIDES(q), STRIDES(k), STRIDES(v),
              STRIDES(out) TENSOR_MAPS) {
  const Problem problem = {batch,     heads, kv_heads, seq,   keys,  window,
                           sequences, scale, cap,      sinks, starts};
  const Results results = {STRIDED(out), lse};
#if PATH_WGMMA
  const Maps maps = {&q_map, &k_map, &v_map};
  Attend(problem, maps, results);
#else
  Attend(problem, STRIDED(q), STRIDED(k), STRIDED(v), results);
#endif
}

#endif
