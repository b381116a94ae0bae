// SPDX-License-Identifier: Apache-2.0
// RowSum of row_sum.cuh, tuned without a change to it. THREADS and UNROLL are the spec's params.

#if TUNE_REFERENCE
extern "C" __global__ void row_sum_reference(double* sums, const float* in, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = sums[row];
  for (int column = 0; column < columns; ++column) {
    sum += in[static_cast<long long>(row) * columns + column];
  }
  sums[row] = sum;
}
#else
// A kernel cannot call a kernel: while the header is read, __global__ makes a device function.
#undef __global__
#undef __launch_bounds__
#define __global__ __device__
#define __launch_bounds__(...)
#include "row_sum.cuh"
#undef __global__
#undef __launch_bounds__
#define __global__ __attribute__((global))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

extern "C" __global__ void __launch_bounds__(THREADS)
    row_sum(float* sums, const float* in, int rows, int columns) {
  RowSum<float, THREADS, UNROLL>(sums, in, columns);
}
#endif
