// SPDX-License-Identifier: Apache-2.0
extern "C" __global__ void scale_reference(const float* x, double* y, float a, long long n) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = static_cast<double>(a) * x[i];
}
