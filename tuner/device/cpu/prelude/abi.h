// SPDX-License-Identifier: Apache-2.0
// The interface between a compiled kernel and the runner. Both include this text, the kernel
// through the prelude, so it includes nothing.
#pragma once

namespace tune_cpu {

inline constexpr unsigned kAbiVersion = 3;
inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kThreadsPerBlockMax = 1024;
inline constexpr unsigned kWarpsPerBlockMax = kThreadsPerBlockMax / kWarpSize;

struct Index {
  unsigned x;
  unsigned y;
  unsigned z;
};

// A kernel's description of one of its parameters. A name that is too long is cut.
struct ParameterFact {
  unsigned size;
  char type[124];
};

enum class BarrierKind : int { kPlain, kCount, kAnd, kOr };

enum class WarpKind : int {
  kSync,
  kShuffle,
  kBallot,
  kMatchAny,
  kMatchAll,
  kReduceAdd,
  kReduceMinSigned,
  kReduceMaxSigned,
  kReduceMinUnsigned,
  kReduceMaxUnsigned,
  kReduceAnd,
  kReduceOr,
  kReduceXor,
};

// Services of the runner for a kernel's thread. `line` is the line of the call, for messages.
struct Services {
  int (*barrier)(BarrierKind kind, int predicate, int line);
  // `source` is the lane to read from (kShuffle only).
  unsigned long long (*warp)(WarpKind kind, unsigned mask, unsigned long long value,
                             unsigned source, int line);
  // Lets the other threads of the block run.
  void (*yield)();
  // After a thread of a block has returned while others are suspended.
  void (*thread_exited)();
  // Called by an assertion that fails. Does not return.
  void (*assert_failed)(const char* expression, const char* file, int line);
};

// The state of an OS thread, at the same offset from the thread pointer in each. The kernel gets
// the offset when it is loaded, so that reading threadIdx takes two instructions and no call.
struct State {
  Index thread;
  Index block;
  Index block_dim;
  Index grid_dim;
  unsigned linear_thread;     // index in the block
  unsigned next_thread;       // linear index of the next thread to start
  unsigned thread_count;
  Index next_index;
  unsigned exited_count;
  unsigned suspended_count;   // threads that have started and wait or could go on
  unsigned exited_lanes[kWarpsPerBlockMax];
  unsigned char* shared;      // dynamic shared memory, aligned to 1024 bytes
  unsigned long long shared_bytes;
  const Services* services;
  // Threads of a block start in the opposite order: to see whether a result depends on it.
  unsigned reversed;
};

}  // namespace tune_cpu
