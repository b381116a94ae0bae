// SPDX-License-Identifier: Apache-2.0
// Compiles many variants at once. Each runs in a worker process of its own, so that a compile that
// hangs, crashes or exhausts memory delays no other. The compile cache is asked first.
//
// Submit() queues a compile, and a thread of the pool (a Slot) runs it in that thread's worker and
// calls back. Each slot keeps its worker for further compiles of the same origin, and replaces it
// after a failure, a number of compiles, or when it grew too large.
//
// Principals take turns (acting_for.h), however many compiles each has queued, and so do the jobs
// of a principal. Calls without a device from anyone but an operator, such as a kernel check, never
// use all workers, so that jobs that have a device go on meanwhile.
//
//   CompilePool pool({.command = command, .scratch_dir = folder, .workers = 8, .cache = &cache});
//   pool.Submit(this, plan, [](absl::StatusOr<CompileResult> result) { ... });  // on its thread
//   ASSIGN_OR_RETURN(CompileResult result, pool.Compile(plan, cancelled));      // or waits
//   pool.Withdraw(this);  // before `this` is destroyed
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/supervision/acting_for.h"
#include "server/supervision/compile_cache.h"
#include "server/supervision/limits.h"
#include "server/supervision/wall_book.h"
#include "server/supervision/worker_process.h"
#include "tuner/device/compiler.h"
#include "tuner/device/include_roots.h"
#include "tuner/plan.h"

namespace tune::server {

struct CompilerInfo {
  Language language = Language::kCuda;
  std::string version;               // "NVRTC 13.0.88"
  std::vector<std::string> targets;  // {"sm_80", "sm_90a", ...}
};

struct CompilePoolOptions {
  WorkerCommand command;
  std::string scratch_dir;    // each worker gets a folder in it
  WallBook* walls = nullptr;  // as DeviceSupervisorOptions::walls
  int workers = 1;
  int64_t binary_bytes_max = Limits().binary_bytes;
  int64_t log_bytes_max = Limits().log_bytes;
  IncludeRoots include_roots;
  CompileCache* cache = nullptr;  // must outlive the pool; null: none
  absl::Duration deadline = absl::Seconds(60);
  absl::Duration start_deadline = absl::Seconds(30);
  // A missing compiler is looked for again only after this time, since each try starts a process.
  absl::Duration missing_kept = absl::Minutes(5);
  absl::Duration idle_stop = absl::Seconds(60);  // a worker unused for so long is stopped
  int compiles_per_worker = 500;
  // A worker compiles for one origin alone. If others wait, an origin keeps its worker for this
  // long.
  absl::Duration origin_turn = absl::Seconds(2);
  int64_t resident_bytes_max = int64_t{3} << 29;  // a worker grown beyond this is replaced
};

struct CompileResult {
  // kOk, kCompileFailed, kInvalidConfig or kCompileTimeout.
  Artifact artifact;
  bool cached = false;
  // It compiled, but the steps of its program cannot launch it: kInvalidConfig, with the reason in
  // the log. Set by Compilers.
  bool misfit = false;
  // It did not compile, and the failure is not the compiler's verdict: as Trial::may_pass.
  bool may_pass = false;
  // The program's steps and symbols, adapted to the artifact. Set by Compilers.
  std::vector<StepPlan> steps;
  std::vector<SymbolPlan> symbols;
};

// Thread-safe.
class CompilePool {
 public:
  // Called on a thread of the pool. Not OK if there is no compiler (UNAVAILABLE, with what to do).
  using Done = std::function<void(absl::StatusOr<CompileResult>)>;

  explicit CompilePool(CompilePoolOptions options);
  ~CompilePool();

  // The compilers of the worker, one for each language. The first worker is asked once. UNAVAILABLE
  // if there is none; this result is reused for `missing_kept`.
  absl::StatusOr<std::vector<CompilerInfo>> Compilers(const Cancelled& cancelled = {});
  // The compiler of one language; UNIMPLEMENTED if the worker has none.
  absl::StatusOr<CompilerInfo> Info(Language language, const Cancelled& cancelled = {});

  // Makes the next call look for a compiler again.
  void ForgetMissing();

  // Queues a compile. `owner` identifies it to Withdraw. It takes its turn for the calling thread's
  // sharer, and `done` is called acting for that sharer.
  void Submit(const void* owner, CompilePlan plan, Done done);
  // Submits and waits. Returns CANCELLED within 50 ms of `cancelled`.
  absl::StatusOr<CompileResult> Compile(const CompilePlan& plan, const Cancelled& cancelled);
  // Drops everything queued by `owner` and kills its running compiles. None of its callbacks runs
  // afterwards. Takes about 50 ms at most.
  void Withdraw(const void* owner);

  // Between Pause and Resume no compile runs, so that a measurement on this host's CPU is not
  // disturbed. The processes of compiles for clients' calls (Sharer::is_call) are stopped
  // meanwhile; others are waited for. Pauses nest. Returns CANCELLED, and does not pause, if
  // `cancelled` ends the wait.
  absl::Status Pause(const Cancelled& cancelled);
  void Resume();

  int workers() const { return workers_; }
  int64_t binary_bytes_max() const { return options_.binary_bytes_max; }
  const std::string& program() const { return options_.command.program; }
  uint64_t worker_restarts() const { return worker_restarts_; }  // after crashes, hangs and garbage

 private:
  struct Job {
    const void* owner;
    Sharer sharer;
    std::optional<CompilePlan> plan;  // nothing: only make sure that there is a compiler
    Done done;
    std::atomic<bool> withdrawn{false};
    bool rests = false;  // its processes are stopped; guarded by mutex_
  };
  // A thread with its process.
  struct Slot {
    int index = 0;
    std::unique_ptr<WorkerProcess> process;
    std::vector<CompilerInfo> compilers;
    std::string walls_missing;  // as the worker says
    int compiles = 0;
    std::string origin;       // CompilePlan::origin of those compiles
    absl::Time origin_since;  // as SteadyNow() counts
    int starts = 0;
    std::string scratch;  // the worker's folder; empty: it has none
    std::thread thread;
  };

  // The share of a principal, or of one owner (Submit) among those of a principal. A principal's
  // jobs and its calls have separate shares.
  struct Share {
    int queued = 0;
    int running = 0;
    uint64_t served = 0;  // when its last compile began, in compiles of the pool
  };
  // Whether it has the reserve, the principal, the owner or null.
  using ShareKey = std::tuple<bool, std::string, const void*>;

  using Queue = std::deque<std::unique_ptr<Job>>;

  void StartSlotFor(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRun(const Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job that the slot's worker compiles next; the end of the queue if none may run now.
  Queue::iterator NextJob(const Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The principal's, then the owner's.
  static std::array<ShareKey, 2> KeysOf(const Job& job) {
    const Sharer& sharer = job.sharer;
    return {ShareKey(sharer.has_reserve, sharer.name, nullptr),
            ShareKey(sharer.has_reserve, sharer.name, job.owner)};
  }
  void Leave(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(const void* owner, std::optional<CompilePlan> plan, Done done);
  absl::StatusOr<CompileResult> Await(std::optional<CompilePlan> plan, const Cancelled& cancelled);
  void Loop(Slot& slot);
  absl::StatusOr<CompileResult> Perform(Slot& slot, Job& job);
  std::string KeyOf(const CompilePlan& plan, const std::string& version) const;
  absl::StatusOr<CompileResult> CompileInWorker(Slot& slot, Job& job, const Cancelled& cancelled);
  // Stops a call's compile during pauses.
  WorkerRests RestsOf(Job& job);
  std::optional<CompileResult> Answered(Slot& slot, const CompilePlan& plan,
                                        worker::v1::WorkerReply& reply);
  absl::Status EnsureWorker(Slot& slot, const Cancelled& cancelled);
  absl::Status EnsureWorkerFor(Slot& slot, const std::string& origin, const Cancelled& cancelled);
  void EndWorker(Slot& slot);
  absl::Status StartWorker(Slot& slot, const Cancelled& cancelled);
  absl::Status Greet(Slot& slot, const Cancelled& cancelled);
  bool KnowsCompilers();
  // Starts the slot's worker. UNAVAILABLE, as remembered for a while, if there is no compiler.
  absl::Status FindCompilers(Slot& slot, const Cancelled& cancelled);
  absl::Status RememberedMissing();
  std::string VersionOf(Language language);
  void RetireIfWorn(Slot& slot);

  const CompilePoolOptions options_;
  const int workers_;
  std::atomic<uint64_t> worker_restarts_{0};

  Mutex mutex_;
  std::condition_variable changed_;
  Queue queue_ ABSL_GUARDED_BY(mutex_);
  // Only of those that have something to compile.
  std::map<ShareKey, Share> shares_ ABSL_GUARDED_BY(mutex_);
  uint64_t served_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_without_reserve_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Job*> running_ ABSL_GUARDED_BY(mutex_);
  std::list<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  int pauses_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<CompilerInfo> compilers_ ABSL_GUARDED_BY(mutex_);  // empty: not known yet
  absl::Status missing_ ABSL_GUARDED_BY(mutex_);                 // why there was none
  absl::Time missing_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Pauses the compilers of some pools during its life.
class CompilePause {
 public:
  CompilePause() = default;  // holds none
  // CANCELLED like CompilePool::Pause.
  static absl::StatusOr<CompilePause> Take(const std::vector<CompilePool*>& pools,
                                           const Cancelled& cancelled);
  CompilePause(CompilePause&& other) noexcept : pools_(std::exchange(other.pools_, {})) {}
  CompilePause& operator=(CompilePause&& other) noexcept {
    std::swap(pools_, other.pools_);
    return *this;
  }
  ~CompilePause() {
    for (CompilePool* pool : pools_) pool->Resume();
  }

 private:
  std::vector<CompilePool*> pools_;
};

}  // namespace tune::server
