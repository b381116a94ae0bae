// SPDX-License-Identifier: Apache-2.0
// libtune-launch-cpu.so: runs the kernels of CPU artifacts in another program's process, such as a
// Python job's. Three functions with C types, which client/python/src/tunectl/_launch_cpu.py calls.
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "tuner/device/cpu/block_scheduler.h"
#include "tuner/device/cpu/host_info.h"
#include "tuner/device/cpu/launcher.h"
#include "tuner/device/cpu/prelude/abi.h"
#include "tuner/device/cpu/usable_cpus.h"

namespace {

using tune::cpu::Launcher;

// The threads of a process. A forked child makes its own: it has none of its parent's threads, and
// one of those may have held the mutex.
struct Processors {
  const pid_t pid = getpid();
  tune::Mutex mutex;
  std::unique_ptr<Launcher> launcher ABSL_GUARDED_BY(mutex);
};

// Never destroyed: a program may launch until its very end.
Processors& ThisProcess() {
  static std::atomic<Processors*> current = nullptr;
  Processors* seen = current.load();
  while (seen == nullptr || seen->pid != getpid()) {
    auto made = std::make_unique<Processors>();
    if (current.compare_exchange_strong(seen, made.get())) return *made.release();
  }
  return *seen;
}

absl::StatusOr<Launcher*> LauncherOf(Processors& processors)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(processors.mutex) {
  if (processors.launcher != nullptr) return processors.launcher.get();
  absl::StatusOr<std::unique_ptr<Launcher>> made =
      Launcher::Create(tune::cpu::UsableCpus(), tune::cpu::kSharedBytesMax);
  if (!made.ok()) return made.status();
  processors.launcher = *std::move(made);
  return processors.launcher.get();
}

int Tell(const absl::Status& status, char* why, size_t why_bytes) {
  if (status.ok()) return 0;
  std::snprintf(why, why_bytes, "%s", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

extern "C" {

// The value that an artifact's `tune_cpu_abi` must have.
[[gnu::visibility("default")]] unsigned tune_launch_cpu_abi() { return tune_cpu::kAbiVersion; }

// The argument of an artifact's `tune_cpu_bind`.
[[gnu::visibility("default")]] long tune_launch_cpu_state_offset() {
  return tune::cpu::BlockScheduler::StateOffset();
}

// Runs a kernel to its end; `sizes` are those of the grid and of a block, x, y, z each. Calls from
// several threads wait for each other. 0, or 1 with a sentence in `why`.
[[gnu::visibility("default")]] int tune_launch_cpu_run(void (*threads)(void* const*),
                                                       void (*set_shared)(unsigned char*),
                                                       const int64_t* sizes, int64_t shared_bytes,
                                                       void* const* args, char* why,
                                                       size_t why_bytes) {
  try {
    Processors& processors = ThisProcess();
    tune::MutexLock lock(processors.mutex);
    const absl::StatusOr<Launcher*> launcher = LauncherOf(processors);
    if (!launcher.ok()) return Tell(launcher.status(), why, why_bytes);
    tune::LaunchPlan plan{.grid = {sizes[0], sizes[1], sizes[2]},
                          .block = {sizes[3], sizes[4], sizes[5]},
                          .shared_bytes = shared_bytes};
    return Tell((*launcher)->Launch({threads, set_shared}, plan, args).status(), why, why_bytes);
  } catch (const std::exception& error) {
    return Tell(absl::InternalError(error.what()), why, why_bytes);
  }
}

}  // extern "C"
