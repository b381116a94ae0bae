// SPDX-License-Identifier: Apache-2.0
// Every worker of this host: a pool of compile workers for each program that compiles, and a lease
// for each device. What the services and the scheduler hold.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/supervision/compile_cache.h"
#include "server/supervision/compile_pool.h"
#include "server/supervision/device_supervisor.h"
#include "server/supervision/limits.h"
#include "server/supervision/wall_book.h"
#include "server/supervision/worker_evaluator.h"
#include "tuner/device/include_roots.h"

namespace tune::server {

struct WorkersOptions {
  std::string state_dir;    // holds the compile cache and the workers' scratch folders
  std::string scratch_dir;  // holds the latter instead, where the state folder is another process's
  std::string worker_dir;   // where the workers' programs are; empty: see FindWorker
  Limits limits;
  IncludeRoots include_roots;  // that kernels may include from
  bool allow_weak_walls = false;  // kernels may run where walls are missing
  absl::Duration compile_deadline = absl::Seconds(60);
  absl::Duration prepare_deadline = absl::Seconds(60);
  absl::Duration run_deadline = absl::Seconds(10);
};

// A program that compiles, with its workers.
struct Toolchain {
  bool for_host = false;  // for the CPU device; else for GPUs
  std::vector<Language> languages;
  std::unique_ptr<CompilePool> pool;
};

// Thread-safe. Starts no process before one is needed.
class Workers {
 public:
  static absl::StatusOr<std::unique_ptr<Workers>> Create(const WorkersOptions& options);

  // GPUs first, then "cpu". Those that cannot be used are there too, with the reason in their
  // status once they were opened. A lease lives as long as this.
  std::vector<DeviceSupervisor*> devices() const;
  // A driver that was not there at the start may be now: adds its further GPUs.
  void FindNewDevices();
  // The device of an id; of an empty id, the first GPU that opens, else the CPU (opened or not).
  // NOT_FOUND names the devices there are.
  absl::StatusOr<DeviceSupervisor*> FindDevice(const std::string& id);

  // A lease of its own on a device, whose worker counts and times nothing. NOT_FOUND: no such
  // device; UNIMPLEMENTED: it has no counters; UNAVAILABLE: the program is not installed.
  absl::StatusOr<std::unique_ptr<DeviceSupervisor>> MakeCountingSupervisor(const std::string& id);

  // The pool that compiles a language for a target. UNAVAILABLE in a build without CUDA;
  // UNIMPLEMENTED, with what there is, where no compiler takes that language for that target.
  absl::StatusOr<CompilePool*> PoolFor(Language language, const std::string& target);
  // Every target that a language can be compiled for on this host.
  std::vector<std::string> Targets(Language language);

  // Holds still whoever compiles for the CPU while a device of target "cpu" measures. Compilers of
  // GPUs are never held: for other targets, nothing is. CANCELLED as CompilePool::Pause.
  absl::StatusOr<CompilePause> Quiet(const std::string& target, const Cancelled& cancelled);

  const Limits& limits() const { return options_.limits; }
  CompileCache& cache() { return *cache_; }
  const WallBook& walls() const { return *walls_; }
  int compile_workers() const;

  // Fills in device and compiler, then WorkerEvaluator::Create.
  absl::StatusOr<std::unique_ptr<WorkerEvaluator>> MakeEvaluator(const std::string& device_id,
                                                                 WorkerEvaluatorOptions options);

 private:
  Workers() = default;
  CompilePool& host_pool() const;

  WorkersOptions options_;
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<WallBook> walls_;
  std::vector<Toolchain> toolchains_;  // the host's is always there
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceSupervisor>> devices_;  // guarded by mutex_
};

}  // namespace tune::server
