// y = x / (1 + exp(-x)). THREADS and ITEMS are params of the spec; they arrive as macros.

#if TUNE_REFERENCE
// Plain and obviously right: one thread an element. Floating outputs are double here.
extern "C" __global__ void my_kernel_reference(const float* x, double* y, long long n) {
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = x[i] / (1.0 + exp(-static_cast<double>(x[i])));
}
#else
extern "C" __global__ void __launch_bounds__(THREADS)
    my_kernel(const float* x, float* y, long long n) {
  const long long first = blockIdx.x * static_cast<long long>(THREADS * ITEMS) + threadIdx.x;
#pragma unroll
  for (int item = 0; item < ITEMS; ++item) {
    const long long i = first + item * THREADS;
    if (i < n) y[i] = x[i] / (1.0f + expf(-x[i]));
  }
}
#endif
