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
#include "server/pool/compile_pool.h"
#include "server/pool/device_lease.h"
#include "tuner/evaluator.h"
#include "tuner/kernel.h"
#include "tuner/roofline/roofline.h"

namespace tune::server {

// What planning a kernel needs to know of a device.
TargetTraits TraitsOf(const DeviceInfo& info);

struct WorkerEvaluatorOptions {
  std::shared_ptr<const Kernel> kernel;
  Problem problem;
  uint64_t seed = 0;  // of the inputs
  SamplePolicy policy;
  SamplePolicy confirm_policy;      // of Remeasure
  DeviceLease* device = nullptr;    // these must outlive the evaluator
  CompilePool* compiler = nullptr;  // for the device's target
  // Pools that must stand still while a CPU device measures. Not used for other devices.
  std::vector<CompilePool*> quiet;
  // When it says so, waits end within 50 ms: Create and Remeasure give CANCELLED, Next gives
  // nothing. Asked from several threads. May be empty.
  Cancelled cancelled;
};

// The Evaluator's calls are for one thread, the sweep's; the counters may be read from any.
// Destroying it at any moment ends what is in flight, within 0.1 s.
class WorkerEvaluator : public Evaluator {
 public:
  // Opens the device, compiles and runs the reference, and makes sure the ceilings are known.
  // INVALID_ARGUMENT: the kernel's reference is at fault; otherwise as DeviceLease and CompilePool.
  static absl::StatusOr<std::unique_ptr<WorkerEvaluator>> Create(WorkerEvaluatorOptions options);
  ~WorkerEvaluator() override;

  size_t capacity() const override;
  absl::Status Start(const Config& config) override;
  absl::StatusOr<std::optional<Trial>> Next(absl::Duration wait) override;
  void ExpectRounds(int rounds) override { rounds_expected_ = rounds; }
  absl::StatusOr<std::vector<Trial>> Remeasure(const std::vector<Config>& configs) override;
  void Appraise(Trial& trial) const override;
  void SetRival(double latency_ns) override { rival_latency_ns_ = latency_ns; }

  const DeviceInfo& device() const { return info_; }
  const TargetTraits& traits() const { return traits_; }
  // May rise while a sweep runs.
  Roof roof() const;
  const std::string& compiler_version() const { return compiler_version_; }
  uint64_t compile_cache_hits() const { return compile_cache_hits_; }
  uint64_t worker_restarts() const;  // of this sweep: device and compile workers

 private:
  // A config on its way: planned, compiled, run.
  struct Item {
    Trial trial;
    VariantPlan plan;
    std::string binary;
  };
  using ItemPtr = std::shared_ptr<Item>;
  using Lock = std::unique_lock<std::mutex>;

  explicit WorkerEvaluator(WorkerEvaluatorOptions options);
  absl::Status Setup();
  absl::Status PrepareReference();
  bool Stopped() const;

  ItemPtr Plan(const Config& config) const;
  void SubmitCompile(const ItemPtr& item);
  void OnCompiled(const ItemPtr& item, absl::StatusOr<CompileResult> result);
  // Waits until nothing is being compiled. False if the evaluator is to stop.
  bool AwaitCompiles(Lock& lock);
  bool MayGoOn() const;

  // The device thread.
  void DeviceLoop();
  bool HasWork() const;
  void MeasureBatch(Lock& lock);
  void MeasureNext(Lock& lock);
  absl::Status Measure(Item& item);
  void Judge(const RunReport& report, Item& item) const;
  void SetRoof(const std::vector<Ceiling>& ceilings);
  bool RaiseRoof();

  void AbandonFlight();
  // Plans and compiles; an item remembered from an earlier round is ready.
  absl::StatusOr<std::vector<ItemPtr>> ReadyForConfirming(const std::vector<Config>& configs);
  void OpenTwins();
  absl::StatusOr<std::vector<Trial>> RunRound(const std::vector<ItemPtr>& items);
  absl::StatusOr<Trial> MeasureAgain(const Item& item, DeviceLease& device);
  absl::Status Quiet();
  void Loud();

  const WorkerEvaluatorOptions options_;
  const Cancelled cancelled_;
  DeviceInfo info_;
  TargetTraits traits_;
  ProblemPlan problem_plan_;
  std::string reference_binary_;
  std::string compiler_version_;
  bool alternate_ = false;  // the device is the CPU that compiles
  uint64_t restarts_before_ = 0;
  std::atomic<double> rival_latency_ns_{0};
  std::atomic<uint64_t> compile_cache_hits_{0};
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  Roof roof_;
  std::deque<ItemPtr> waiting_;  // to be compiled (alternating only)
  std::deque<ItemPtr> ready_;    // compiled, to be run
  std::deque<Trial> finished_;
  size_t compiling_ = 0;
  bool measuring_ = false;
  bool wanted_ = false;      // the sweep waits in Next: no more configs come for now
  bool abandoning_ = false;  // Remeasure wants the device thread to come to rest
  bool confirming_ = false;  // Remeasure keeps its items to itself
  absl::Status failure_;

  // What Remeasure has compiled, by config text, so that no round but the first compiles. Lives on
  // the sweep's thread.
  std::map<std::string, ItemPtr> finalists_;
  int rounds_expected_ = 0;
  // A fresh worker for each round to come, opened all at the same time: starting one takes longer
  // than a round of a fast kernel. None is at work while another measures.
  std::vector<std::unique_ptr<DeviceLease>> twins_;
  // Those that have had their round, while their processes end: that takes the driver as long as
  // the next round takes. Each waits when it is destroyed.
  std::vector<std::future<void>> leaving_;

  // Results by machine code, launch and arguments. Lives on the device thread.
  std::map<std::string, Trial> measured_;
  bool roof_doubted_ = false;  // likewise
  std::thread device_thread_;
};

}  // namespace tune::server
