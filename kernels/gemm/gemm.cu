// SPDX-License-Identifier: Apache-2.0
// C = f(alpha * op(A) op(B)), for one of three instruction sets. See README.md for the layouts and
// what each param does.
#if TUNE_REFERENCE

#include "gemm_reference.h"

#else

#if PATH_WGMMA
#include "warpgroups.h"
#elif PATH_MMA
#include "warps.h"
#else
#include "cores.h"
#endif
#include "combine.h"

// Targets with the bulk copy engine pass tensor maps, whether or not the path uses them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#include "sm90.cuh"
#define TENSOR_MAPS \
  , const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map
#else
#define TENSOR_MAPS
#endif

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    gemm(const Input* __restrict__ a, const Input* __restrict__ b,
         const Element* __restrict__ bias, const Element* __restrict__ residual,
         const float* __restrict__ a_scale, const float* __restrict__ b_scale,
         Element* __restrict__ out, float* __restrict__ partials, int m, int n, int k,
         float alpha TENSOR_MAPS) {
#if SPLIT > 1 || STREAM_K > 0
  LetNextStepBegin();
#endif
  const Problem problem = {m, n, k};
  const Output output = {bias, residual, a_scale, b_scale, out, partials, alpha};
#if PATH_WGMMA
  Multiply(problem, Maps{&a_map, &b_map}, output);
#else
  Multiply(problem, a, b, output);
#endif
}

#endif
