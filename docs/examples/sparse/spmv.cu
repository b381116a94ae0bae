// SPDX-License-Identifier: Apache-2.0
// y = A x of a sparse matrix by rows (CSR): LANES threads share a row.
template <int kLanes>
__global__ void spmv(const int* offsets, const int* columns, const float* values, const float* x,
                     float* y, int rows) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  if (row >= rows) return;
  float sum = 0;
  for (int i = offsets[row] + lane; i < offsets[row + 1]; i += kLanes) {
    sum += values[i] * x[columns[i]];
  }
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    const unsigned group = threadIdx.x % 32 / kLanes * kLanes;
    const unsigned mask = (kLanes == 32 ? 0xffffffffu : (1u << (kLanes % 32)) - 1u) << group;
    sum += __shfl_xor_sync(mask, sum, lanes, kLanes);
  }
  if (lane == 0) y[row] = sum;
}

#if TUNE_REFERENCE
extern "C" __global__ void spmv_reference(const int* offsets, const int* columns,
                                          const float* values, const float* x, double* y,
                                          int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = 0;
  for (int i = offsets[row]; i < offsets[row + 1]; ++i) sum += double(values[i]) * x[columns[i]];
  y[row] = sum;
}
#endif
