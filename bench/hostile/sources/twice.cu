// SPDX-License-Identifier: Apache-2.0
// y = 2 x.
extern "C" __global__ void twice(const float* x, float* y) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  y[i] = 2 * x[i];
}
