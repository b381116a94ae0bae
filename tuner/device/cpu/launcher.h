// SPDX-License-Identifier: Apache-2.0
// The processors that kernels run on: one OS thread for each hardware thread, each with a scheduler
// of blocks, all of them kept from launch to launch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tuner/plan.h"

namespace tune::cpu {

// The entry points of a compiled kernel.
struct KernelCode {
  void (*threads)(void* const* args) = nullptr;
  // Tells an OS thread where its dynamic shared memory is; may be null.
  void (*set_shared)(unsigned char* base) = nullptr;
};

// The dynamic shared memory of one thread of the launcher, with guard zones on either side.
struct SharedMemory {
  unsigned char* data = nullptr;
  size_t front_bytes = 0;  // the zone ahead of it
  size_t bytes_max = 0;    // from `data` on, what no launch may have included
};

// INVALID_ARGUMENT names the limit that a launch breaks.
absl::Status CheckLaunch(const LaunchPlan& plan, uint64_t shared_bytes_max);

// Not thread-safe.
class Launcher {
 public:
  // A thread for each of `cpus`, bound to it where the system allows.
  static absl::StatusOr<std::unique_ptr<Launcher>> Create(const std::vector<int>& cpus,
                                                          uint64_t shared_bytes_max);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  unsigned thread_count() const { return static_cast<unsigned>(threads_.size()); }
  SharedMemory shared(unsigned thread_index) const;

  // How long a launch took, in nanoseconds: from when all threads stood ready until the last one
  // was done, so waking them is not part of it. INVALID_ARGUMENT: see CheckLaunch. ABORTED: an
  // assertion of the kernel failed. FAILED_PRECONDITION: it went wrong otherwise, by a deadlock or
  // a misuse of a barrier. The launcher can be used again.
  absl::StatusOr<double> Launch(const KernelCode& code, const LaunchPlan& plan, void* const* args);

  // The order in which a block's threads start in later launches. A correct kernel has the same
  // results in any order.
  enum class Order { kForward, kReversed };
  void SetOrder(Order order) { order_ = order; }

  using Task = absl::FunctionRef<void(unsigned thread_index)>;
  // When the last of all tasks began and ended, launches among them, as steady_clock counts.
  int64_t begin_ns() const { return begin_ns_; }
  int64_t end_ns() const { return end_ns_; }

  // Runs `task` once on every thread; returns the nanoseconds.
  double RunOnAll(Task task);
  // Runs `task` on [begin, end) pieces of [0, count), one for each thread. Pieces begin at
  // multiples of `grain`, and are the same in every call. Returns the nanoseconds.
  double ForPieces(int64_t count, int64_t grain,
                   absl::FunctionRef<void(unsigned thread_index, int64_t begin, int64_t end)> task);

 private:
  struct Worker;

  Launcher() = default;
  void Serve(unsigned index, int cpu, uint64_t shared_bytes_max);
  double Execute(Task prepare, Task task);
  // All threads go on at the same time from here.
  void AwaitAll(uint32_t round);

  Order order_ = Order::kForward;
  std::vector<std::thread> threads_;
  std::vector<std::unique_ptr<Worker>> workers_;
  const Task* prepare_ = nullptr;
  const Task* task_ = nullptr;
  bool stop_ = false;
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> open_round_{0};
  std::atomic<uint32_t> finished_round_{0};
  std::atomic<unsigned> ready_count_{0};
  std::atomic<unsigned> running_count_{0};
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;
};

}  // namespace tune::cpu
