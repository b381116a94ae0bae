// SPDX-License-Identifier: Apache-2.0
// The reference: a block for each row of Q. Two passes over its keys, one for the largest score and
// one for the sums, in f64. It shares nothing with the tuned paths. It reads inputs by their
// strides; what it writes is contiguous.
#pragma once

#if defined(DTYPE_BF16)
#include <cuda_bf16.h>
#elif defined(DTYPE_F16)
#include <cuda_fp16.h>
#endif

constexpr int kReferenceKeys = 128;  // at a time

extern "C" __global__ void attention_decode_reference(
    const DTYPE* q, const DTYPE* k, const DTYPE* v, const int* table, const int* unused, float* out,
    float* lse, int heads, int kv_heads, int seq, float scale, long long q_batch_stride,
    long long q_query_stride, long long q_head_stride, long long k_row_gap,
    long long k_page_stride, long long k_key_stride, long long k_head_stride, long long v_row_gap,
    long long v_page_stride, long long v_key_stride, long long v_head_stride,
    long long table_stride) {
  __shared__ double weights[kReferenceKeys];
  const int head = blockIdx.x % heads;
  const int query = blockIdx.x / heads % QUERIES;
  const int sequence = blockIdx.x / heads / QUERIES;
  const int kv_head = head / (heads / kv_heads);
  const int spare = unused[sequence] < seq ? unused[sequence] : seq - 1;
  const int hidden = spare + QUERIES - 1 - query;
  const int end = seq > hidden ? seq - hidden : 1;
  const DTYPE* row = q + sequence * q_batch_stride + query * q_query_stride + head * q_head_stride;
  const int* pages = table + sequence * table_stride;
  const int row_pages = (seq + PAGE_SIZE - 1) / PAGE_SIZE;  // of the cache
  k += kv_head * k_head_stride;
  v += kv_head * v_head_stride;
  double max = -1e300;
  double sum = 0;
  double o[HEAD_DIM] = {};  // this thread's: every blockDim.x-th
  for (int pass = 0; pass < 2; ++pass) {
    for (int first = 0; first < end; first += kReferenceKeys) {
      const int count = end - first < kReferenceKeys ? end - first : kReferenceKeys;
      __syncthreads();
      for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const int key = first + i;
        const int page = pages[key / PAGE_SIZE];
        const DTYPE* from = k + page / row_pages * k_row_gap + page * k_page_stride +
                            key % PAGE_SIZE * k_key_stride;
        double score = 0;
        for (int d = 0; d < HEAD_DIM; ++d) {
          score += static_cast<double>(static_cast<float>(row[d])) *
                   static_cast<double>(static_cast<float>(from[d]));
        }
        weights[i] = pass == 0 ? score * scale : exp(score * scale - max);
      }
      __syncthreads();
      for (int i = 0; i < count; ++i) {
        if (pass == 0) {
          max = weights[i] > max ? weights[i] : max;
          continue;
        }
        sum += weights[i];
        const int key = first + i;
        const int page = pages[key / PAGE_SIZE];
        const DTYPE* from = v + page / row_pages * v_row_gap + page * v_page_stride +
                            key % PAGE_SIZE * v_key_stride;
        for (int d = threadIdx.x; d < HEAD_DIM; d += blockDim.x) {
          o[d / blockDim.x] += weights[i] * static_cast<double>(static_cast<float>(from[d]));
        }
      }
    }
  }
  for (int d = threadIdx.x; d < HEAD_DIM; d += blockDim.x) {
    out[static_cast<long long>(blockIdx.x) * HEAD_DIM + d] =
        static_cast<float>(o[d / blockDim.x] / sum);
  }
  if (threadIdx.x == 0) lse[blockIdx.x] = static_cast<float>(max + log(sum));
}
