// SPDX-License-Identifier: Apache-2.0
// The reference: a block for each row of Q. Two passes over its keys, one for the largest score and
// one for the sums, in f64. It shares nothing with the tuned paths.
#pragma once

#if defined(DTYPE_BF16)
#include <cuda_bf16.h>
#elif defined(DTYPE_F16)
#include <cuda_fp16.h>
#endif

constexpr int kReferenceKeys = 128;  // at a time

extern "C" __global__ void attention_decode_reference(
    const DTYPE* q, const DTYPE* k, const DTYPE* v, const int* table, const int* unused, float* out,
    float* lse, int batch, int heads, int kv_heads, int seq, int table_batch, int table_page,
    long long page_stride, long long key_stride, long long head_stride, float scale) {
  __shared__ double weights[kReferenceKeys];
  const int head = blockIdx.x % heads;
  const int query = blockIdx.x / heads % QUERIES;
  const int sequence = blockIdx.x / heads / QUERIES;
  const int kv_head = head / (heads / kv_heads);
  const int spare = unused[sequence] < seq ? unused[sequence] : seq - 1;
  const int hidden = spare + QUERIES - 1 - query;
  const int end = seq > hidden ? seq - hidden : 1;
  const DTYPE* row = q + static_cast<long long>(blockIdx.x) * HEAD_DIM;
  const auto place = [&](int key) {
    const long long page = table[sequence * table_batch + key / PAGE_SIZE * table_page];
    return page * page_stride + key % PAGE_SIZE * key_stride + kv_head * head_stride;
  };
  double max = -1e300;
  double sum = 0;
  double o[HEAD_DIM] = {};  // this thread's: every blockDim.x-th
  for (int pass = 0; pass < 2; ++pass) {
    for (int first = 0; first < end; first += kReferenceKeys) {
      const int count = end - first < kReferenceKeys ? end - first : kReferenceKeys;
      __syncthreads();
      for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const long long at = place(first + i);
        double score = 0;
        for (int d = 0; d < HEAD_DIM; ++d) {
          score += static_cast<double>(static_cast<float>(row[d])) *
                   static_cast<double>(static_cast<float>(k[at + d]));
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
        const long long at = place(first + i);
        for (int d = threadIdx.x; d < HEAD_DIM; d += blockDim.x) {
          o[d / blockDim.x] += weights[i] * static_cast<double>(static_cast<float>(v[at + d]));
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
