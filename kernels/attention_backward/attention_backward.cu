// SPDX-License-Identifier: Apache-2.0
// Attention backward: dQ, dK and dV, for one of three instruction sets. See README.md for the
// layouts, the steps and what each param does.
#if TUNE_REFERENCE

#include "backward_reference.h"

#else

#if PATH_WGMMA
#include "backward_wgmma.h"
#elif PATH_MMA
#include "backward_mma.h"
#else
#include "backward_plain.h"
#endif
#include "add_parts.h"
#include "row_facts.h"

// Targets with the bulk copy engine pass tensor maps, whether or not the path uses them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#include "sm90.cuh"
#define TENSOR_MAPS                                                                       \
  , const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map, \
      const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap dout_map
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

#define PROBLEM \
  { batch, heads, kv_heads, seq, OTHER_KEYS ? keys : seq, window, scale }

// Step 1: what the other steps need to know of each row of Q.
extern "C" __global__ void __launch_bounds__(kFactThreads)
    row_facts(const Element* __restrict__ out, const Element* __restrict__ dout,
              const float* __restrict__ lse, float* __restrict__ facts, int batch, int heads,
              int kv_heads, int seq, int keys, int window, float scale, STRIDES(out),
              STRIDES(dout)) {
  StoreFacts(PROBLEM, STRIDED(out), STRIDED(dout), lse, facts);
}

// Step 2: dK and dV, or parts of them, and, but for DQ_PASS, the sums of dQ.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    dk_dv(const Element* __restrict__ q, const Element* __restrict__ k,
          const Element* __restrict__ v, const Element* __restrict__ dout,
          const float* __restrict__ facts, Element* __restrict__ dk, Element* __restrict__ dv,
          float* __restrict__ dq_sums, float* __restrict__ parts, int batch, int heads,
          int kv_heads, int seq, int keys, int window, float scale, STRIDES(q), STRIDES(k),
          STRIDES(v), STRIDES(dout), STRIDES(dk), STRIDES(dv) TENSOR_MAPS) {
  const Problem problem = PROBLEM;
  const Gradients gradients = {STRIDED(dk), STRIDED(dv), parts};
#if PATH_WGMMA
  Walk<true>(problem, {&k_map, &v_map}, {&q_map, &dout_map}, facts, gradients, dq_sums);
#elif PATH_MMA
  Walk<true>(problem, {STRIDED(k), STRIDED(v)}, {STRIDED(q), STRIDED(dout)}, facts, gradients,
             dq_sums);
#else
  Walk<true>(problem, {STRIDED(k), STRIDED(v)}, {STRIDED(q), STRIDED(dout)}, facts, gradients);
#endif
}

#if DQ_PASS

// Step 3: dQ by a walk of its own over K and V.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    dq_pass(const Element* __restrict__ q, const Element* __restrict__ k,
            const Element* __restrict__ v, const Element* __restrict__ dout,
            const float* __restrict__ facts, Element* __restrict__ dq, int batch, int heads,
            int kv_heads, int seq, int keys, int window, float scale, STRIDES(q), STRIDES(k),
            STRIDES(v), STRIDES(dout), STRIDES(dq) TENSOR_MAPS) {
  const Problem problem = PROBLEM;
  const Gradients gradients = {STRIDED(dq), {}, nullptr};
#if PATH_WGMMA
  Walk<false>(problem, {&q_map, &dout_map}, {&k_map, &v_map}, facts, gradients, nullptr);
#elif PATH_MMA
  Walk<false>(problem, {STRIDED(q), STRIDED(dout)}, {STRIDED(k), STRIDED(v)}, facts, gradients,
              nullptr);
#else
  Walk<false>(problem, {STRIDED(q), STRIDED(dout)}, {STRIDED(k), STRIDED(v)}, facts, gradients);
#endif
}

#else

// Step 3: dQ from its sums.
extern "C" __global__ void __launch_bounds__(kRoundThreads)
    round_dq(const float* __restrict__ dq_sums, Element* __restrict__ dq, int batch, int heads,
             int kv_heads, int seq, int keys, int window, float scale, STRIDES(dq)) {
  RoundSums(PROBLEM, dq_sums, STRIDED(dq));
}

#endif

#if PARTS > 1

// Step 4: dK and dV from their parts.
extern "C" __global__ void __launch_bounds__(kAddThreads)
    add_parts(const float* __restrict__ parts, Element* __restrict__ dk, Element* __restrict__ dv,
              int batch, int heads, int kv_heads, int seq, int keys, int window, float scale,
              STRIDES(dk), STRIDES(dv)) {
  AddParts(PROBLEM, parts, STRIDED(dk), STRIDED(dv));
}

#endif

#endif
