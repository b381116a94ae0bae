// SPDX-License-Identifier: Apache-2.0
#if DTYPE_BF16
#include <cuda_bf16.h>
#elif DTYPE_F16
#include <cuda_fp16.h>
#endif

constexpr int kHalf = HEAD_DIM / 2;

// A thread takes a pair, in double precision.
extern "C" __global__ void rope_reference(const DTYPE* q, const DTYPE* k, const float* cosine,
                                          const float* sine, double* q_out, double* k_out, int seq,
                                          int q_rows, int k_rows) {
  const long long rows = q_rows + static_cast<long long>(k_rows);
  const long long pairs = seq * rows * kHalf;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < pairs;
       i += step) {
    const long long pair = i % kHalf;
    const long long row = i / kHalf % rows;
    const long long token = i / kHalf / rows;
    const DTYPE* in = row < q_rows ? q : k;
    double* out = row < q_rows ? q_out : k_out;
    const long long head =
        row < q_rows ? token * q_rows + row : token * k_rows + (row - q_rows);
    const long long first = head * HEAD_DIM + (INTERLEAVED ? 2 * pair : pair);
    const long long second = first + (INTERLEAVED ? 1 : kHalf);
    const double c = cosine[token * kHalf + pair];
    const double s = BACKWARD ? -sine[token * kHalf + pair] : sine[token * kHalf + pair];
    const double a = static_cast<float>(in[first]);
    const double b = static_cast<float>(in[second]);
    out[first] = a * c - b * s;
    out[second] = b * c + a * s;
  }
}
