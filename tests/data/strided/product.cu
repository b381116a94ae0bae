// SPDX-License-Identifier: Apache-2.0
// y = factor * x * z, element by element, of arrays [batch, heads, seq, width] with strides of
// their own; and its gradients.
struct Strides {
  long long batch, head, row;
  __device__ long long At(int i, int heads, int seq, int width) const {
    const int row = i / width;
    return (row / seq / heads) * batch + (row / seq % heads) * head + (row % seq) * this->row +
           i % width;
  }
};

#if TUNE_REFERENCE
extern "C" __global__ void product_reference(const float* x, const float* z, double* y,
                                             float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = static_cast<double>(factor) * x[i] * z[i];
}
extern "C" __global__ void gradient_reference(const float* x, const float* z, const float* dy,
                                              double* dx, double* dz, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  dx[i] = static_cast<double>(factor) * dy[i] * z[i];
  dz[i] = static_cast<double>(factor) * dy[i] * x[i];
}
#else
extern "C" __global__ void product(const float* x, const float* z, float* y, float factor,
                                   int heads, int seq, int width, int x_batch, int x_head,
                                   int x_row, long long z_batch, long long z_head, long long z_row,
                                   long long y_batch, long long y_head, long long y_row) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[Strides{y_batch, y_head, y_row}.At(i, heads, seq, width)] =
      factor * x[Strides{x_batch, x_head, x_row}.At(i, heads, seq, width)] *
      z[Strides{z_batch, z_head, z_row}.At(i, heads, seq, width)];
}
extern "C" __global__ void gradient(const float* x, const float* z, const float* dy, float* dx,
                                    float* dz, float factor, int heads, int seq, int width,
                                    long long x_batch, long long x_head, long long x_row,
                                    long long dy_batch, long long dy_head, long long dy_row,
                                    long long dx_batch, long long dx_head, long long dx_row) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float slope = factor * dy[Strides{dy_batch, dy_head, dy_row}.At(i, heads, seq, width)];
  dx[Strides{dx_batch, dx_head, dx_row}.At(i, heads, seq, width)] = slope * z[i];
  dz[i] = slope * x[Strides{x_batch, x_head, x_row}.At(i, heads, seq, width)];
}
#endif
