// SPDX-License-Identifier: Apache-2.0
// Turns configs into trials with worker processes: many compile while one runs. On the CPU device
// the two alternate instead, because a compile next door would spoil the times.
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

// What planning a kernel needs to know of a device.
TargetTraits TraitsOf(const DeviceInfo& info);

struct WorkerEvaluatorOptions {
  std::shared_ptr<const Kernel> kernel;
  Problem problem;
  uint64_t seed = 0;  // of the inputs
  SamplePolicy policy;
  SamplePolicy confirm_policy;         // of Remeasure
  DeviceSupervisor* device = nullptr;  // these must outlive the evaluator
  const Compilers* compilers = nullptr;
  // Of compiling and running the reference, and of the search: what is under way when it is spent
  // is cut short and no trial. Starting the device and measuring its ceilings do not count.
  absl::Duration budget = absl::InfiniteDuration();
  size_t remembered_max = Limits().remembered_results;
  // Of compiled variants that wait for the device; 0: a binary of the largest size for each worker.
  int64_t ready_bytes_max = 0;
  // When it says so, waits end within 50 ms: Create and Remeasure give CANCELLED, Next gives
  // nothing. Asked from several threads. May be empty.
  Cancelled cancelled;
  // A config that will be tried; if the spec's args do not fit its kernel, Create says so.
  std::optional<Config> first;
  // Trials may be started, and compile, while the device is opened and the reference runs: what is
  // wrong with those is then Next's to say. Only where that takes nothing of a budget of time, the
  // device is known with its ceilings, and compiling does not disturb it; else as without.
  bool early = false;
};

// The Evaluator's calls are for one thread, the sweep's; the counters may be read from any.
// Destroying it at any moment ends what is in flight, within 0.1 s.
class WorkerEvaluator : public Evaluator {
 public:
  // Opens the device, compiles and runs the reference, and makes sure the ceilings are known.
  // INVALID_ARGUMENT: the kernel's reference is at fault; DEADLINE_EXCEEDED: it took the budget;
  // otherwise as DeviceSupervisor and Compilers.
  static absl::StatusOr<std::unique_ptr<WorkerEvaluator>> Create(WorkerEvaluatorOptions options);
  ~WorkerEvaluator() override;

  size_t capacity() const override;
  absl::Status Start(const Config& config) override;
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration wait) override;
  void ExpectRounds(int rounds, absl::Duration limit) override;
  absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>& configs) override;
  void Appraise(Trial& trial) const override;
  void SetRival(double latency_ns) override { rival_latency_ns_ = latency_ns; }

  // Waits until the device is prepared, where that is done while variants compile. What is wrong
  // with the reference or the device, which no trial may have come to tell.
  absl::Status AwaitPrepared();

  // What Remeasure has run of a config; nothing if it has not, or the config did not compile.
  std::optional<Program> MeasuredProgram(const Config& config) const;

  // Of the budget.
  absl::Duration time_left() const;
  const DeviceInfo& device() const { return info_; }
  const TargetTraits& traits() const { return traits_; }
  // May rise while a sweep runs.
  Roof roof() const;
  const std::string& compiler_version() const { return compiler_version_; }
  uint64_t compile_cache_hits() const { return compile_cache_hits_; }
  uint64_t worker_restarts() const;  // of this sweep: device and compile workers
  // "THREADS=64 was still running after 44 s", where the search's end cut a run short; else empty.
  std::string WhatWasCutShort() const;

 private:
  // A config on its way: planned, compiled, run.
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
  // What needs the device, and what runs on it before the first trial.
  absl::Status PrepareDevice();
  bool MayPrepareLater() const;
  std::string BudgetSpent(const char* doing) const;  // the sentence
  absl::Status CompileReference();
  absl::Status KnowCeilings();
  // Cuts short what waits after so much time.
  void Limit(absl::Duration time);
  bool IsOutOfTime() const { return time_left() <= absl::ZeroDuration(); }
  void CompileFirst();
  absl::Status CheckFirst();
  bool Stopped() const;
  // CANCELLED where time was what ended it becomes DEADLINE_EXCEEDED.
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
  // Compiles again what there was no room for; the compile cache has it, as a rule.
  absl::Status FetchBinary(Item& item);
  void Judge(const RunReport& report, Item& item) const;
  void SetRoof(const std::vector<Ceiling>& ceilings);
  bool RaiseRoof();

  void AbandonFlight();
  // Plans and compiles; an item remembered from an earlier round is ready.
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

  // What Remeasure has compiled, by config text, so that no round but the first compiles. Lives on
  // the sweep's thread.
  std::map<std::string, ItemPtr> finalists_;
  int rounds_expected_ = 0;
  // A fresh worker for each round to come, opened all at the same time: starting one takes longer
  // than a round of a fast kernel. None is at work while another measures.
  std::vector<std::unique_ptr<DeviceSupervisor>> twins_;
  // Those that have had their round, while their processes end: that takes the driver as long as
  // the next round takes. Each waits when it is destroyed.
  std::vector<std::future<void>> leaving_;

  // Results by machine code, launch and arguments. Lives on the device thread.
  RememberedResults measured_;
  bool roof_doubted_ = false;  // likewise
  std::thread device_thread_;
};

}  // namespace tune::server
