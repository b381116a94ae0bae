// SPDX-License-Identifier: Apache-2.0
// A column a thread, in double.
extern "C" __global__ void column_sums_reference(const float* x, double* y, int rows, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  double sum = 0;
  for (long long row = 0; row < rows; ++row) sum += x[row * columns + column];
  y[column] = sum;
}
