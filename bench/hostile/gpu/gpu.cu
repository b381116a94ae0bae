// SPDX-License-Identifier: Apache-2.0
// Acts against the GPU. Every variant also computes y = 2 x, so that only the act can be at fault.
// An act that never ends elsewhere ends here after 20 s by the GPU's own clock.

#if TUNE_REFERENCE
extern "C" __global__ void reference(const float* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0 * x[i];
}
#else
struct Args {
  const float* x;
  float* y;
  int n;
  int i;
};

__device__ unsigned long long NowNs() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
__device__ bool IsFirst(const Args& args) { return args.i == 0; }

__device__ void none(const Args&) {}
__device__ void spin(const Args& args) {
  const unsigned long long start = NowNs();
  while (IsFirst(args) && NowNs() - start < 20'000'000'000ULL) {
  }
}
__device__ void write_far_outside(const Args& args) {
  if (IsFirst(args)) args.y[1LL << 45] = 1;
}
__device__ void write_before(const Args& args) {
  if (IsFirst(args)) args.y[-1] = 1;
}
__device__ void write_input(const Args& args) {
  if (IsFirst(args)) const_cast<float*>(args.x)[args.n / 2] = 1e30f;
}
// Whatever else lies in this process's memory: other arguments, the reference's result, the poison.
__device__ void write_everything(const Args& args) {
  if (!IsFirst(args)) return;
  for (long long at = 0; at < 1LL << 34; at += 4096) args.y[at] = 7;
}
__device__ void read_everything(const Args& args) {
  if (!IsFirst(args)) return;
  float sum = 0;
  for (long long at = 0; at < 1LL << 34; at += 4096) sum += *(volatile const float*)(args.x + at);
  if (sum == 1.5f) args.y[0] = sum;
}
__device__ void trap(const Args& args) {
  if (IsFirst(args)) __trap();
}
__device__ void stop_for_debugger(const Args& args) {
  if (IsFirst(args)) asm volatile("brkpt;");
}
__device__ void fail_assertion(const Args& args) {
  if (IsFirst(args)) __assertfail("hostile", "gpu.cu", 1, "act", 1);
}
__device__ void misaligned(const Args& args) {
  if (IsFirst(args)) *reinterpret_cast<volatile double*>(reinterpret_cast<char*>(args.y) + 1) = 1;
}
__device__ __noinline__ int Deeper(int depth, volatile int* keep) {
  volatile int frame[256];
  frame[depth % 256] = depth;
  *keep = frame[depth % 256];
  return depth == 0 ? 0 : Deeper(depth - 1, frame) + frame[0];
}
__device__ void overflow_stack(const Args& args) {
  int keep;
  if (IsFirst(args) && Deeper(1 << 20, &keep) == 7) args.y[0] = 7;
}
__device__ void take_heap(const Args& args) {
  for (int i = 0; i < 64; ++i) {
    char* piece = static_cast<char*>(malloc(1 << 16));
    if (piece != nullptr) piece[args.i % (1 << 16)] = 1;
  }
}
__device__ void print_flood(const Args& args) {
  for (int i = 0; i < 8; ++i) printf("\033[2Jhostile %d says %d\n", args.i, i);
}
__device__ void jump_wild(const Args& args) {
  if (IsFirst(args)) reinterpret_cast<void (*)()>(0x123456780ULL)();
}
__device__ void write_null(const Args& args) {
  if (IsFirst(args)) *reinterpret_cast<volatile int*>(8) = 1;
}
__device__ void write_shared_outside(const Args& args) {
  __shared__ volatile int few[4];
  if (IsFirst(args)) few[args.n] = 1;
}
// Threads that wait for others that never come.
__device__ void wait_for_ever(const Args& args) {
  __shared__ volatile int flag;
  const unsigned long long start = NowNs();
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  while (blockIdx.x == 0 && flag == 0 && NowNs() - start < 20'000'000'000ULL) {
  }
}
// More work than a launch has: every thread does its element a million times.
__device__ void launch_more(const Args& args) {
  const unsigned long long start = NowNs();
  for (int i = 0; i < 1000000 && NowNs() - start < 20'000'000'000ULL; ++i) {
    if (args.i < args.n) *(volatile float*)(args.y + args.i) = 2 * args.x[args.i];
  }
}

extern "C" __global__ void act(const float* x, float* y, int n) {
  const Args args = {x, y, n, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x)};
  if (args.i < n) y[args.i] = 2 * x[args.i];
  ACT(args);
}
#endif
