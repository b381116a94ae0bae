// SPDX-License-Identifier: Apache-2.0
// Attention of one or a few queries of each sequence to a long paged cache of keys and values. See
// README.md for the layouts and what each param does.
#if TUNE_REFERENCE

#include "decode_reference.h"

#else

#if PATH_MMA
#include "rows_mma.h"
#else
#include "lanes.h"
#endif
#include "combine_splits.h"

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    attention_decode(const Element* __restrict__ q, const Element* __restrict__ k,
                     const Element* __restrict__ v, const int* __restrict__ table,
                     const int* __restrict__ unused, Element* __restrict__ out,
                     float* __restrict__ lse, float* __restrict__ split_out,
                     float* __restrict__ split_lse, int batch, int heads, int seq, float scale,
                     long long q_batch_stride, long long q_query_stride, long long q_head_stride,
                     long long k_row_gap, long long k_page_stride, long long k_key_stride,
                     long long k_head_stride, long long v_row_gap, long long v_page_stride,
                     long long v_key_stride, long long v_head_stride, long long table_stride,
                     long long out_batch_stride, long long out_query_stride,
                     long long out_head_stride) {
  StartMerges();
#if SPLIT > CLUSTER
  LetNextStepBegin();
#endif
  const Problem problem = {{q, q_batch_stride, q_query_stride, q_head_stride},
                           {k, k_row_gap, k_page_stride, k_key_stride, k_head_stride},
                           {v, v_row_gap, v_page_stride, v_key_stride, v_head_stride},
                           table,
                           table_stride,
                           unused,
                           batch,
                           heads,
                           seq,
                           scale};
  Decode(problem, {{out, out_batch_stride, out_query_stride, out_head_stride},
                   lse,
                   split_out,
                   split_lse});
}

#endif
