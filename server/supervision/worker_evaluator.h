// SPDX-License-Identifier: Apache-2.0
// The Evaluator of a sweep: turns configs into trials with worker processes. Many configs compile
// at once while one runs. On the CPU device the two alternate instead, since compiles on the same
// processors would distort the times.
//
// Three kinds of threads take part. The sweep's thread calls the Evaluator: Start plans a config
// and submits it to the compilers, Next returns finished trials. Threads of the compile pools call
// OnCompiled, which queues the binary in `ready_`. The device thread takes from `ready_`, runs each
// config and judges it against the roof. `mutex_` guards the state that they share. Remeasure
// waits until the device thread rests, then measures the finalists in fresh workers (twins).
//
//   ASSIGN_OR_RETURN(auto evaluator, WorkerEvaluator::Create(std::move(options)));
//   RETURN_IF_ERROR(evaluator->Start(config));
//   ASSIGN_OR_RETURN(std::optional<Trial> trial, evaluator->Next(absl::Milliseconds(50)));
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/supervision/compilers.h"
#include "server/supervision/device_supervisor.h"
#include "server/supervision/limits.h"
#include "server/supervision/remembered_results.h"
#include "tuner/kernel/kernel.h"
#include "tuner/roofline/roofline.h"
#include "tuner/sweep/evaluator.h"

namespace tune::server {

// The device's traits that planning a kernel needs.
TargetTraits TraitsOf(const DeviceInfo& info);

struct WorkerEvaluatorOptions {
  std::shared_ptr<const Kernel> kernel;
  Problem problem;
  uint64_t seed = 0;  // of the inputs
  SamplePolicy policy;
  SamplePolicy confirm_policy;         // of Remeasure
  DeviceSupervisor* device = nullptr;  // these must outlive the evaluator
  const Compilers* compilers = nullptr;
  // The time for compiling and running the reference and for the search. Work under way when it is
  // spent is cut short and is no trial. Starting the device and measuring its ceilings do not
  // count.
  absl::Duration budget = absl::InfiniteDuration();
  size_t remembered_max = Limits().remembered_results;
  // The limit for compiled variants that wait for the device; 0: a binary of the largest size for
  // each worker.
  int64_t ready_bytes_max = 0;
  // Once it returns true, waits end within 50 ms: Create and Remeasure return CANCELLED, Next
  // returns nullopt. Called from several threads. May be empty.
  Cancelled cancelled;
  // A config that will be tried; Create fails if the spec's args do not fit its kernel.
  std::optional<Config> first;
  // Lets trials start, and compile, while the device is opened and the reference runs. Next then
  // returns errors of that preparation. Ignored with a time budget, with unknown ceilings, and on
  // the CPU device.
  bool early = false;
};

// The sweep's thread calls the Evaluator; the counters may be read from any. The destructor
// may run at any time and ends what is in flight, within 0.1 s.
class WorkerEvaluator : public Evaluator {
 public:
  // Opens the device, compiles and runs the reference, and measures the ceilings if they are not
  // known. INVALID_ARGUMENT if the kernel's reference is at fault; DEADLINE_EXCEEDED if it took the
  // budget; otherwise errors of DeviceSupervisor and Compilers.
  static absl::StatusOr<std::unique_ptr<WorkerEvaluator>> Create(WorkerEvaluatorOptions options);
  ~WorkerEvaluator() override;

  size_t capacity() const override;
  absl::Status Start(const Config& config) override;
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration wait) override;
  void ExpectRounds(int rounds, absl::Duration limit) override;
  absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>& configs) override;
  void Appraise(Trial& trial) const override;
  void SetRival(double latency_ns) override { rival_latency_ns_ = latency_ns; }

  // Waits until the device is prepared, if that happens while variants compile. Returns the error
  // of the reference or the device, which no trial may have reported.
  absl::Status AwaitPrepared();

  // The program that Remeasure ran for a config; nullopt if it ran none, or the config did not
  // compile.
  std::optional<Program> MeasuredProgram(const Config& config) const;

  // The rest of the budget.
  absl::Duration time_left() const;
  const DeviceInfo& device() const { return info_; }
  const TargetTraits& traits() const { return traits_; }
  // May rise while a sweep runs.
  Roof roof() const;
  const std::string& compiler_version() const { return compiler_version_; }
  uint64_t compile_cache_hits() const { return compile_cache_hits_; }
  uint64_t worker_restarts() const;  // of this sweep: device and compile workers
  // "THREADS=64 was still running after 44 s" if the end of the search cut a run short; else empty.
  std::string WhatWasCutShort() const;

 private:
  // A config in flight: planned, compiled, run.
  struct Item {
    Trial trial;
    ProgramPlan plan;
    uint64_t number = 0;  // in the order of Start
    std::string binary;   // empty once it runs, or where `ready_` had no room for it
    std::optional<absl::StatusOr<CompileResult>> compiled;  // of the first only
  };
  using ItemPtr = std::shared_ptr<Item>;
  using Lock = std::unique_lock<std::mutex>;

  explicit WorkerEvaluator(WorkerEvaluatorOptions options);
  absl::Status PlanWork();
  // The work that needs the device, before the first trial.
  absl::Status PrepareDevice();
  bool MayPrepareLater() const;
  std::string BudgetSpent(const char* doing) const;  // the sentence
  absl::Status CompileReference();
  absl::Status KnowCeilings();
  // Sets the deadline after which waits are cut short.
  void Limit(absl::Duration time);
  bool IsOutOfTime() const { return time_left() <= absl::ZeroDuration(); }
  void CompileFirst();
  absl::Status CheckFirst();
  bool Stopped() const;
  // Turns CANCELLED into DEADLINE_EXCEEDED if the time ended it.
  absl::Status Explained(const absl::Status& status, const std::string& what) const;

  ItemPtr Plan(const Config& config) const;
  void SubmitCompile(const ItemPtr& item);
  void OnCompiled(const ItemPtr& item, absl::StatusOr<CompileResult> result);
  // Waits until nothing is being compiled. False if the evaluator is to stop.
  bool AwaitCompiles(Lock& lock);
  void AddReady(const ItemPtr& item);
  ItemPtr TakeReady();
  bool MayGoOn() const;

  // The device thread.
  void DeviceLoop();
  bool HasWork() const;
  void MeasureBatch(Lock& lock);
  void MeasureNext(Lock& lock);
  absl::Status Measure(Item& item);
  // Compiles again a config for which `ready_` had no room; usually a hit in the compile cache.
  absl::Status FetchBinary(Item& item);
  void Judge(const RunReport& report, Item& item) const;
  void SetRoof(const std::vector<Ceiling>& ceilings);
  bool RaiseRoof();

  void AbandonFlight();
  // Plans and compiles; an item compiled in an earlier round is reused.
  absl::StatusOr<std::vector<ItemPtr>> ReadyForConfirming(const std::vector<Config>& configs);
  void OpenTwins();
  absl::StatusOr<std::vector<Trial>> RunRound(const std::vector<Config>& configs);
  absl::StatusOr<Trial> MeasureAgain(const Item& item, DeviceSupervisor& device);
  absl::StatusOr<CompilePause> PauseCompilers(const Cancelled& cancelled) const;

  const WorkerEvaluatorOptions options_;
  const Cancelled cancelled_;
  const Cancelled run_cancelled_;  // of the search: also once it is abandoned
  DeviceInfo info_;
  TargetTraits traits_;
  ProblemPlan problem_plan_;
  std::string reference_binary_;
  std::string compiler_version_;      // of the kernel's language
  CompilePool* pool_ = nullptr;       // of the kernel's language
  bool alternate_ = false;            // the device is the CPU that compiles
  ItemPtr first_;                     // of options_.first, until it is checked
  std::future<absl::Status> opened_;  // until PrepareDevice takes it
  uint64_t restarts_before_ = 0;
  uint64_t started_ = 0;  // on the sweep's thread
  std::atomic<double> rival_latency_ns_{0};
  std::atomic<uint64_t> compile_cache_hits_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> abandoning_{false};  // Remeasure wants the device thread to come to rest
  std::atomic<int64_t> deadline_ns_;     // as Now() counts

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  Roof roof_;
  std::deque<ItemPtr> waiting_;  // to be compiled (alternating only)
  std::deque<ItemPtr> ready_;    // compiled, to be run
  int64_t ready_bytes_ = 0;      // of their binaries
  std::deque<Trial> finished_;
  size_t compiling_ = 0;
  bool prepared_ = false;  // by Create; else it is the device thread's first work
  bool measuring_ = false;
  bool wanted_ = false;      // the sweep waits in Next: no more configs come for now
  bool confirming_ = false;  // Remeasure keeps its items to itself
  absl::Status failure_;
  struct {
    std::string config;             // empty: nothing runs, and nothing was cut short
    absl::Time start;               // as SteadyNow() counts
    std::optional<absl::Time> end;  // nothing while it runs
  } running_;

  // The configs that Remeasure has compiled, by their text, so that only the first round compiles.
  // Used by the sweep's thread.
  std::map<std::string, ItemPtr> finalists_;
  int rounds_expected_ = 0;
  // A fresh worker for each round to come. All are opened at the same time, since starting one
  // takes longer than a round of a fast kernel. Only one works at a time.
  std::vector<std::unique_ptr<DeviceSupervisor>> twins_;
  // Twins that have had their round and are ending, which takes the driver as long as the next
  // round takes. Each future waits when it is destroyed.
  std::vector<std::future<void>> leaving_;

  // Results by machine code, launch and arguments. Used by the device thread, as is roof_doubted_.
  RememberedResults measured_;
  bool roof_doubted_ = false;  // likewise
  std::thread device_thread_;
};

}  // namespace tune::server
