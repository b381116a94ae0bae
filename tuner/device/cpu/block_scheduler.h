// SPDX-License-Identifier: Apache-2.0
// Runs the blocks of a launch on one OS thread, each block's threads as fibers. A thread that never
// waits costs no switch: it runs to its end on the fiber of the thread before it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "tuner/device/cpu/fiber.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/device/cpu/prelude/abi.h"

namespace tune::cpu {

// A launch, shared by the schedulers of all OS threads.
struct Launch {
  void (*threads)(void* const* args) = nullptr;  // the kernel's own loop over a block's threads
  void* const* args = nullptr;
  tune_cpu::Index grid = {1, 1, 1};
  tune_cpu::Index block = {1, 1, 1};
  uint64_t shared_bytes = 0;
  uint64_t block_count = 1;
  uint64_t blocks_per_take = 1;
  bool reversed = false;  // threads of a block start last first

  std::atomic<uint64_t> next_block{0};
  std::atomic<bool> failed{false};
  Mutex mutex;
  absl::Status failure ABSL_GUARDED_BY(mutex);  // of the first thread that failed

  void Fail(absl::Status why);
};

// Not thread-safe: belongs to the OS thread that uses it first.
class BlockScheduler {
 public:
  explicit BlockScheduler(uint64_t shared_bytes_max);
  ~BlockScheduler();
  BlockScheduler(const BlockScheduler&) = delete;
  BlockScheduler& operator=(const BlockScheduler&) = delete;

  // Runs blocks until none is left to take or the launch has failed.
  void Run(Launch& launch);

  // The calling OS thread's state, which kernels read; and how far it is from the thread pointer,
  // the same in every OS thread.
  static tune_cpu::State& ThreadState();
  static long StateOffset();
  unsigned char* shared() { return shared_; }
  SharedMemory shared_memory() const;
  uint64_t shared_bytes_max() const { return shared_bytes_max_; }

 private:
  struct Lane {
    unsigned long long value;
    unsigned long long result;
    unsigned source;
    Fiber* fiber;
  };
  // Lanes of one warp on their way to one warp operation.
  struct Meeting {
    unsigned mask;
    unsigned arrived;
    tune_cpu::WarpKind kind;
  };
  struct WarpState {
    std::array<Meeting, tune_cpu::kWarpSize> meetings;
    unsigned meeting_count;
  };

  static int Barrier(tune_cpu::BarrierKind kind, int predicate, int line);
  static unsigned long long Warp(tune_cpu::WarpKind kind, unsigned mask, unsigned long long value,
                                 unsigned source, int line);
  static void Yield();
  static void ThreadExited();
  static void AssertFailed(const char* expression, const char* file, int line);
  static const tune_cpu::Services kServices;

  static void RunFiber(Fiber& self);
  bool NextBlock();
  void BeginBlock(uint64_t index);
  // Suspends the running thread until another makes it ready.
  void Suspend(const Wait& wait);
  Fiber* TakeReady();
  // A fiber that starts threads, or nullptr after failing the launch.
  Fiber* TakeIdle();
  void ReleaseBarrier();
  bool IsComplete(const Meeting& meeting, unsigned warp) const;
  void Conclude(unsigned warp, unsigned meeting_index);
  void ConcludeWhatExitCompletes(unsigned warp);
  [[noreturn]] void FailLaunch(absl::Status why);
  [[noreturn]] void FailLaunch(std::string message);
  std::string DescribeDeadlock() const;

  Launch* launch_ = nullptr;
  uint64_t take_next_ = 0;
  uint64_t take_end_ = 0;

  std::unique_ptr<Fiber> host_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* running_ = nullptr;

  // A ring; a block has at most 1024 threads.
  std::array<Fiber*, tune_cpu::kThreadsPerBlockMax> ready_;
  unsigned ready_first_ = 0;
  unsigned ready_end_ = 0;

  std::array<Fiber*, tune_cpu::kThreadsPerBlockMax> at_barrier_;
  unsigned at_barrier_count_ = 0;
  unsigned barrier_true_count_ = 0;  // predicates so far
  unsigned barrier_arrived_count_ = 0;
  int barrier_result_ = 0;
  tune_cpu::BarrierKind barrier_kind_ = tune_cpu::BarrierKind::kPlain;

  std::array<WarpState, tune_cpu::kWarpsPerBlockMax> warps_;
  std::array<Lane, tune_cpu::kThreadsPerBlockMax> lanes_;

  const uint64_t shared_bytes_max_;
  void* mapping_ = nullptr;
  unsigned char* shared_ = nullptr;  // in the mapping, between its guard zones
};

}  // namespace tune::cpu
