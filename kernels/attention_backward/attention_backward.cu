// SPDX-License-Identifier: Apache-2.0
// Attention backward: dQ, dK, dV and the sinks' gradients, for one of three instruction sets. See
// README.md for the layouts, the steps and what each param does.
#if TUNE_REFERENCE

#include "backward_reference.h"

#else

#if PATH_WGMMA && HEAD_DIM > 128
#include "backward_wide.h"
#elif PATH_WGMMA
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

#define SIZES                                                                                    \
  int batch, int heads, int kv_heads, int seq, int keys, int window, int sequences, float scale, \
      float cap
#define PROBLEM(starts)                                                                          \
  {                                                                                              \
    batch, heads, kv_heads, seq, OTHER_KEYS ? keys : seq, window, sequences, scale, cap, starts, \
        seq, 0, 0                                                                                \
  }

// Step 1: what the other steps need to know of each row of Q.
extern "C" __global__ void __launch_bounds__(kFactThreads)
    row_facts(const Element* __restrict__ out, const Element* __restrict__ dout,
              const float* __restrict__ lse, const int* __restrict__ starts,
              float* __restrict__ facts, float* __restrict__ dsinks, SIZES, STRIDES(out),
              STRIDES(dout)) {
  if (!SINKS && blockIdx.x == 0 && threadIdx.x == 0) dsinks[0] = 0.0f;
  StoreFacts(PROBLEM(starts), STRIDED(out), STRIDED(dout), lse, facts);
}

// Step 2: dK and dV, or parts of them, and, but for DQ_PASS, the sums of dQ.
extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    dk_dv(const Element* __restrict__ q, const Element* __restrict__ k,
          const Element* __restrict__ v, const int* __restrict__ starts,
          const Element* __restrict__ dout, const float* __restrict__ facts,
          Element* __restrict__ dk, Element* __restrict__ dv, float* __restrict__ dq_sums,
          float* __restrict__ parts, SIZES, STRIDES(q), STRIDES(k), STRIDES(v), STRIDES(dout),
          STRIDES(dk), STRIDES(dv) TENSOR_MAPS) {
  const Problem problem = PROBLEM(starts);
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
            const Element* __restrict__ v, const int* __restrict__ starts,
            const Element* __restrict__ dout, const float* __restrict__ facts,
            Element* __restrict__ dq, SIZES, STRIDES(q), STRIDES(k), STRIDES(v), STRIDES(dout),
            STRIDES(dq) TENSOR_MAPS) {
  const Problem problem = PROBLEM(starts);
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
    round_dq(const float* __restrict__ dq_sums, const int* __restrict__ starts,
             Element* __restrict__ dq, SIZES, STRIDES(dq)) {
  RoundSums(PROBLEM(starts), dq_sums, STRIDED(dq));
}

#endif

#if PARTS > 1

// Step 4: dK and dV from their parts.
extern "C" __global__ void __launch_bounds__(kAddThreads)
    add_parts(const float* __restrict__ parts, Element* __restrict__ dk, Element* __restrict__ dv,
              SIZES, STRIDES(dk), STRIDES(dv)) {
  AddParts(PROBLEM(nullptr), parts, STRIDED(dk), STRIDED(dv));
}

#endif

#if SINKS

// The last step: the gradients of the sinks, a block each.
extern "C" __global__ void __launch_bounds__(kSinkThreads)
    sink_gradients(const float* __restrict__ sinks, const float* __restrict__ facts,
                   float* __restrict__ dsinks, SIZES) {
  const Problem problem = PROBLEM(nullptr);
  StoreSinkGradient(problem, blockIdx.x, sinks, facts, dsinks);
}

#endif

#endif
