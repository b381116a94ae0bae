// SPDX-License-Identifier: Apache-2.0
// The first of two launches: each block's share of the largest absolute value.
__device__ float Absolute(float x) { return x < 0 ? -x : x; }

extern "C" __global__ void find_largest(const float* x, float* largest, int n) {
  __shared__ float shared[THREADS];
  float best = 0;
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
    best = fmaxf(best, Absolute(x[i]));
  }
  shared[threadIdx.x] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < THREADS; ++i) best = fmaxf(best, shared[i]);
    largest[blockIdx.x] = best;
  }
}

#if TUNE_REFERENCE
extern "C" __global__ void reference(const float* x, double* y, int n) {
  double largest = 0;
  for (int i = 0; i < n; ++i) largest = fmax(largest, fabs(double(x[i])));
  for (int i = 0; i < n; ++i) y[i] = x[i] / largest;
}
#endif
