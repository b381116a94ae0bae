// SPDX-License-Identifier: Apache-2.0
// The sum of each row of x [rows, cols]. BLOCKS blocks share a row.

// The sum of what this block has of its row, in its first thread.
__device__ float BlockSum(const float* x, int cols) {
  __shared__ float sums[THREADS];
  const float* row = x + static_cast<long long>(blockIdx.y) * cols;
  float sum = 0;
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS) sum += row[i];
  sums[threadIdx.x] = sum;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

extern "C" __global__ void partial_sums(const float* x, float* partials, int cols) {
  const float sum = BlockSum(x, cols);
  if (threadIdx.x == 0) partials[blockIdx.y * BLOCKS + blockIdx.x] = sum;
}

extern "C" __global__ void combine(const float* partials, float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int i = 0; i < BLOCKS; ++i) sum += partials[row * BLOCKS + i];
  y[row] = sum;
}

// `totals` is zero when this starts.
extern "C" __global__ void add_sums(const float* x, float* totals, int cols) {
  const float sum = BlockSum(x, cols);
  if (threadIdx.x == 0) atomicAdd(&totals[blockIdx.y], sum);
}

extern "C" __global__ void store_totals(const float* totals, float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) y[row] = totals[row];
}

#if TUNE_REFERENCE
extern "C" __global__ void sum_reference(const float* x, double* y, int cols) {
  double sum = 0;
  for (int i = 0; i < cols; ++i) sum += x[static_cast<long long>(blockIdx.x) * cols + i];
  y[blockIdx.x] = sum;
}
#endif
