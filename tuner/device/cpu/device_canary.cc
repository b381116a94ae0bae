// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/device_canary.h"

#include <atomic>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tuner/device/cpu/block_scheduler.h"
#include "tuner/device/cpu/prelude/abi.h"

namespace tune::cpu {
namespace {

constexpr unsigned kThreads = 64;
constexpr unsigned kBlocksPerProcessor = 4;

// SplitMix64's finaliser.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

uint64_t Weigh(uint64_t value, unsigned thread) { return value * (2 * thread + 1); }

// The function that TUNE_CPU_ENTRY would make of a kernel.
void RunThreads(void* const* args) {
  auto& sum = *static_cast<std::atomic<uint64_t>*>(args[0]);
  tune_cpu::State& state = BlockScheduler::ThreadState();
  while (state.next_thread < state.thread_count) {
    const unsigned thread = state.next_thread++;
    state.linear_thread = thread;
    auto* shared = reinterpret_cast<uint64_t*>(state.shared);
    shared[thread] = Mix(uint64_t{state.block.x} * kThreads + thread);
    state.services->barrier(tune_cpu::BarrierKind::kPlain, 0, __LINE__);
    sum.fetch_add(Weigh(shared[kThreads - 1 - thread], thread), std::memory_order_relaxed);
    state.exited_lanes[thread / tune_cpu::kWarpSize] |= 1u << (thread % tune_cpu::kWarpSize);
    ++state.exited_count;
    if (state.suspended_count != 0) state.services->thread_exited();
  }
}

}  // namespace

absl::Status RunDeviceCanary(Launcher& launcher) {
  LaunchPlan plan;
  plan.grid[0] = int64_t{kBlocksPerProcessor} * launcher.thread_count();
  plan.block[0] = kThreads;
  plan.shared_bytes = kThreads * sizeof(uint64_t);
  std::atomic<uint64_t> sum{0};
  void* const args[] = {&sum};
  const absl::StatusOr<double> done = launcher.Launch({.threads = &RunThreads}, plan, args);
  if (!done.ok()) return done.status();
  uint64_t expected = 0;
  for (uint64_t block = 0; block < static_cast<uint64_t>(plan.grid[0]); ++block) {
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      expected += Weigh(Mix(block * kThreads + kThreads - 1 - thread), thread);
    }
  }
  if (sum.load() == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a known kernel gave ", sum.load(), " instead of ",
                                          expected, ": this host computes wrong results"));
}

}  // namespace tune::cpu
