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
                     float* __restrict__ split_lse, int batch, int heads, int kv_heads, int seq,
                     int table_batch, int table_page, long long page_stride, long long key_stride,
                     long long head_stride, float scale) {
  StartMerges();
#if SPLIT > CLUSTER
  LetNextStepBegin();
#endif
  const Problem problem = {q,     k,        v,   table,       unused,     batch,
                           heads, kv_heads, seq, table_batch, table_page, page_stride,
                           key_stride, head_stride, scale};
  Decode(problem, {out, lse, split_out, split_lse});
}

#endif
