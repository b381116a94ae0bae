// SPDX-License-Identifier: Apache-2.0
// The Evaluator of a sweep: turns configs into trials with worker processes. It prepares the device
// and the problem, wraps the executors (executors.h) around one another, and hands configs to a
// TrialPipeline, whose thread measures them; FinalRounds measures the best again.
//
//   ASSIGN_OR_RETURN(auto evaluator, SweepEvaluator::Create(workers, "cuda:0", {...}));
//   RETURN_IF_ERROR(evaluator->Start(config));
//   ASSIGN_OR_RETURN(std::optional<Trial> trial, evaluator->Next(absl::Milliseconds(50)));
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/measure/compile_set.h"
#include "server/measure/executors.h"
#include "server/measure/final_rounds.h"
#include "server/measure/time_budget.h"
#include "server/measure/trial_pipeline.h"
#include "server/supervision/workers.h"
#include "tuner/kernel/kernel.h"
#include "tuner/sweep/evaluator.h"

namespace tune::server {

struct SweepEvaluatorOptions {
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
class SweepEvaluator : public Evaluator {
 public:
  // Opens the device, compiles and runs the reference, and measures the ceilings if they are not
  // known. INVALID_ARGUMENT if the kernel's reference is at fault; DEADLINE_EXCEEDED if it took the
  // budget; otherwise errors of DeviceSupervisor and Compilers.
  static absl::StatusOr<std::unique_ptr<SweepEvaluator>> Create(SweepEvaluatorOptions options);
  // Takes the device of an id, the compilers and the limits from `workers`.
  static absl::StatusOr<std::unique_ptr<SweepEvaluator>> Create(Workers& workers,
                                                                const std::string& device_id,
                                                                SweepEvaluatorOptions options);
  ~SweepEvaluator() override;

  size_t capacity() const override;
  absl::Status Start(const Config& config) override;
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration wait) override;
  void ExpectRounds(int rounds, absl::Duration limit) override;
  absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>& configs) override;
  void Appraise(Trial& trial) const override { appraising_->Appraise(trial); }
  void SetRival(double latency_ns) override {
    rival_latency_ns_ = latency_ns;
    variants_->SetRival(latency_ns);
  }

  // Measures trials of this evaluator's search on the device of `helper`, on the calling thread,
  // until `leave` returns true or the search ends. `helper` is of the same kernel and problem. An
  // error: its device is lost; what it had is measured by the others. Thread-safe.
  absl::Status TakeHelp(SweepEvaluator& helper, const Cancelled& leave);
  // The device that measured a finished trial if it was not this evaluator's own; else empty.
  // Forgets it.
  std::string TakeHelperOf(const Trial& trial);

  // Waits until the device is prepared, if that happens while variants compile. Returns the error
  // of the reference or the device, which no trial may have reported.
  absl::Status AwaitPrepared() { return pipeline_->AwaitPrepared(cancelled_); }

  // The program that Remeasure ran for a config; nullopt if it ran none, or the config did not
  // compile.
  std::optional<Program> MeasuredProgram(const Config& config) const;

  // The rest of the budget.
  absl::Duration time_left() const { return budget_.left(); }
  const DeviceInfo& device() const { return info_; }
  const TargetTraits& traits() const { return traits_; }
  // May rise while a sweep runs.
  Roof roof() const { return appraising_->roof(); }
  const std::string& compiler_version() const { return compiler_version_; }
  uint64_t compile_cache_hits() const { return variants_->cache_hits(); }
  uint64_t worker_restarts() const;  // of this sweep: device and compile workers
  // "THREADS=64 was still running after 44 s" if the end of the search cut a run short; else empty.
  std::string WhatWasCutShort() const { return pipeline_->WhatWasCutShort(); }

 private:
  explicit SweepEvaluator(SweepEvaluatorOptions options);
  absl::Status PlanWork();
  void WrapExecutors();
  // The work that needs the device, before the first trial.
  absl::Status PrepareDevice();
  bool MayPrepareLater() const;
  std::string BudgetSpent(const char* doing) const;  // the sentence
  absl::Status KnowCeilings();
  void CompileFirst();
  absl::Status CheckFirst();
  // Measures the attempts that the pipeline has compiled.
  TrialExecutor& outermost();
  AttemptPtr Plan(const Config& config) const;
  void AbandonFlight();
  // Plans and compiles; what an earlier round compiled is reused.
  absl::StatusOr<std::vector<AttemptPtr>> CompileFinalists(const std::vector<Config>& configs);

  const SweepEvaluatorOptions options_;
  TimeBudget budget_;
  std::atomic<bool> abandoning_{false};  // a round wants the device thread to come to rest
  const Cancelled cancelled_;
  const Cancelled run_cancelled_;  // of the search: also once it is abandoned
  DeviceInfo info_;
  TargetTraits traits_;
  ProblemPlan problem_plan_;
  std::string reference_binary_;
  std::string compiler_version_;      // of the kernel's language
  CompilePool* pool_ = nullptr;       // of the kernel's language
  std::future<absl::Status> opened_;  // until PrepareDevice takes it
  uint64_t restarts_before_ = 0;

  std::optional<CompileSet> first_;  // of options_.first
  std::string first_misfit_;         // why the spec's args do not fit; set by first_

  DeviceSession session_;
  std::optional<VariantExecutor> variants_;
  std::optional<AppraisingExecutor> appraising_;
  std::optional<BoundedExecutor> bounded_;
  std::optional<RememberingExecutor> remembering_;
  std::optional<AlternatingExecutor> alternating_;  // on the CPU that compiles
  std::optional<TrialPipeline> pipeline_;
  std::atomic<double> rival_latency_ns_{0};
  Mutex helped_mutex_;
  // The devices of finished trials that help measured, by the config's text.
  std::map<std::string, std::string> helped_ ABSL_GUARDED_BY(helped_mutex_);

  // The configs that Remeasure has compiled, by their text, so that only the first round compiles.
  std::map<std::string, AttemptPtr> finalists_;
  FinalRounds rounds_;
};

}  // namespace tune::server
