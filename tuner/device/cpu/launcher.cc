// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/launcher.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/cpu/block_scheduler.h"

namespace tune::cpu {
namespace {

// A GPU's limits, so that a launch which fits here fits there.
constexpr std::array<int64_t, 3> kGridMax = {2147483647, 65535, 65535};
constexpr std::array<int64_t, 3> kBlockMax = {1024, 1024, 64};
constexpr std::array<char, 3> kAxes = {'x', 'y', 'z'};
// How many blocks a thread takes at once: few enough that all threads end together.
constexpr uint64_t kTakesPerThread = 32;
constexpr uint64_t kBlocksPerTakeMax = 256;
constexpr int kSpins = 4096;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

tune_cpu::Index ToIndex(const std::array<int64_t, 3>& sizes) {
  return {static_cast<unsigned>(sizes[0]), static_cast<unsigned>(sizes[1]),
          static_cast<unsigned>(sizes[2])};
}

}  // namespace

struct Launcher::Worker {
  std::unique_ptr<BlockScheduler> scheduler;
  long state_offset = 0;
};

absl::Status CheckLaunch(const LaunchPlan& plan, uint64_t shared_bytes_max) {
  for (size_t i = 0; i < 3; ++i) {
    if (plan.grid[i] < 1 || plan.grid[i] > kGridMax[i]) {
      return absl::InvalidArgumentError(absl::StrCat("a grid of ", plan.grid[i], " blocks along ",
                                                     std::string(1, kAxes[i]), "; 1 to ",
                                                     kGridMax[i], " are possible"));
    }
    if (plan.block[i] < 1 || plan.block[i] > kBlockMax[i]) {
      return absl::InvalidArgumentError(absl::StrCat("a block of ", plan.block[i],
                                                     " threads along ", std::string(1, kAxes[i]),
                                                     "; 1 to ", kBlockMax[i], " are possible"));
    }
    if (plan.cluster[i] != 1) {
      return absl::InvalidArgumentError("the CPU device has no clusters of blocks");
    }
  }
  if (plan.cooperative) {
    return absl::InvalidArgumentError(
        "the CPU device has no cooperative launches: its blocks do not all run at the same time");
  }
  const int64_t threads = plan.block[0] * plan.block[1] * plan.block[2];
  if (threads > tune_cpu::kThreadsPerBlockMax) {
    return absl::InvalidArgumentError(absl::StrCat("a block of ", threads, " threads; at most ",
                                                   tune_cpu::kThreadsPerBlockMax, " are possible"));
  }
  if (plan.shared_bytes < 0 || static_cast<uint64_t>(plan.shared_bytes) > shared_bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(plan.shared_bytes,
                                                   " bytes of dynamic shared memory; at most ",
                                                   shared_bytes_max, " are possible"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Launcher>> Launcher::Create(const std::vector<int>& cpus,
                                                           uint64_t shared_bytes_max) {
  if (cpus.empty()) return absl::FailedPreconditionError("no processor to run on");
  std::unique_ptr<Launcher> launcher(new Launcher);
  for (size_t i = 0; i < cpus.size(); ++i) launcher->workers_.push_back(std::make_unique<Worker>());
  launcher->threads_.reserve(cpus.size());
  try {
    for (unsigned i = 0; i < cpus.size(); ++i) {
      launcher->threads_.emplace_back([self = launcher.get(), i, cpu = cpus[i], shared_bytes_max] {
        self->Serve(i, cpu, shared_bytes_max);
      });
    }
  } catch (const std::system_error& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("thread ", launcher->threads_.size(), " of ", cpus.size(),
                     " could not be started (", error.what(),
                     "): raise the limit on processes, or bind the daemon to fewer processors "
                     "with taskset"));
  }
  // A kernel uses one distance for all threads.
  launcher->RunOnAll(
      [&](unsigned i) { launcher->workers_[i]->state_offset = BlockScheduler::StateOffset(); });
  for (const std::unique_ptr<Worker>& worker : launcher->workers_) {
    if (worker->state_offset == launcher->workers_[0]->state_offset) continue;
    return absl::FailedPreconditionError(
        "the CPU device must be linked into the program, not into a shared library");
  }
  return launcher;
}

Launcher::~Launcher() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Launcher::Serve(unsigned index, int cpu, uint64_t shared_bytes_max) {
  cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpu) + 1);
  const size_t set_bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpu) + 1);
  CPU_ZERO_S(set_bytes, set);
  CPU_SET_S(static_cast<size_t>(cpu), set_bytes, set);
  // Unbound is worse for the times, and no error.
  (void)pthread_setaffinity_np(pthread_self(), set_bytes, set);
  CPU_FREE(set);
  // Made here, so that its memory is near the processor that uses it.
  workers_[index]->scheduler = std::make_unique<BlockScheduler>(shared_bytes_max);
  for (uint32_t seen = 0;;) {
    round_.wait(seen, std::memory_order_acquire);
    seen = round_.load(std::memory_order_acquire);
    if (stop_) return;
    (*prepare_)(index);
    AwaitAll(seen);
    (*task_)(index);
    if (running_count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      end_ns_ = NowNs();
      finished_round_.store(seen, std::memory_order_release);
      finished_round_.notify_one();
    }
  }
}

void Launcher::AwaitAll(uint32_t round) {
  if (ready_count_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_.size()) {
    begin_ns_ = NowNs();
    open_round_.store(round, std::memory_order_release);
    return;
  }
  for (int spins = 0; open_round_.load(std::memory_order_acquire) != round; ++spins) {
    if (spins < kSpins) {
      Pause();
    } else {
      sched_yield();
    }
  }
}

double Launcher::Execute(Task prepare, Task task) {
  prepare_ = &prepare;
  task_ = &task;
  ready_count_.store(0, std::memory_order_relaxed);
  running_count_.store(thread_count(), std::memory_order_relaxed);
  const uint32_t round = round_.fetch_add(1, std::memory_order_release) + 1;
  round_.notify_all();
  for (;;) {
    const uint32_t finished = finished_round_.load(std::memory_order_acquire);
    if (finished == round) break;
    finished_round_.wait(finished, std::memory_order_acquire);
  }
  return static_cast<double>(end_ns_ - begin_ns_);
}

SharedMemory Launcher::shared(unsigned thread_index) const {
  return workers_[thread_index]->scheduler->shared_memory();
}

double Launcher::RunOnAll(Task task) {
  return Execute([](unsigned) {}, task);
}

double Launcher::ForPieces(int64_t count, int64_t grain,
                           absl::FunctionRef<void(unsigned, int64_t, int64_t)> task) {
  const int64_t grains = (count + grain - 1) / grain;
  const int64_t threads = thread_count();
  const int64_t share = (grains + threads - 1) / threads * grain;
  return RunOnAll([&](unsigned i) {
    const int64_t begin = std::min(count, share * i);
    const int64_t end = std::min(count, begin + share);
    if (begin < end) task(i, begin, end);
  });
}

absl::StatusOr<double> Launcher::Launch(const KernelCode& code, const LaunchPlan& plan,
                                        void* const* args) {
  RETURN_IF_ERROR(CheckLaunch(plan, workers_[0]->scheduler->shared_bytes_max()));
  cpu::Launch launch;
  launch.threads = code.threads;
  launch.args = args;
  launch.grid = ToIndex(plan.grid);
  launch.block = ToIndex(plan.block);
  launch.shared_bytes = static_cast<uint64_t>(plan.shared_bytes);
  launch.reversed = order_ == Order::kReversed;
  launch.block_count = static_cast<uint64_t>(plan.grid[0]) * static_cast<uint64_t>(plan.grid[1]) *
                       static_cast<uint64_t>(plan.grid[2]);
  launch.blocks_per_take = std::clamp<uint64_t>(
      launch.block_count / (kTakesPerThread * thread_count()), 1, kBlocksPerTakeMax);
  const double duration_ns = Execute(
      [&](unsigned i) {
        if (code.set_shared != nullptr) code.set_shared(workers_[i]->scheduler->shared());
      },
      [&](unsigned i) { workers_[i]->scheduler->Run(launch); });
  if (launch.failed.load(std::memory_order_relaxed)) {
    MutexLock lock(launch.mutex);
    return launch.failure;
  }
  return duration_ns;
}

}  // namespace tune::cpu
