// SPDX-License-Identifier: Apache-2.0
#include "server/pool/compile_check.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(20);
// Compiles queued at once for each worker: enough to keep it busy, and little to throw away.
constexpr size_t kQueuedPerWorker = 4;
constexpr size_t kMessageBytesMax = 4096;

// Collects what comes of compiles that run at the same time. Thread-safe.
class Collector {
 public:
  explicit Collector(CompilePool& pool) : pool_(pool) {}
  ~Collector() { pool_.Withdraw(this); }

  void Submit(std::string variant, CompilePlan plan, bool counts) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++in_flight_;
    }
    pool_.Submit(
        this, std::move(plan),
        [this, variant = std::move(variant), counts](absl::StatusOr<CompileResult> result) {
          Add(variant, counts, std::move(result));
        });
  }

  void AddFinding(std::string variant, std::string message) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (report_.findings.size() < kCompileFindingsMax) {
      message.resize(std::min(message.size(), kMessageBytesMax));
      report_.findings.push_back({std::move(variant), std::move(message)});
    }
  }

  // Waits until at most `in_flight` are left.
  absl::Status Await(size_t in_flight, const Cancelled& cancelled) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, kPatience, [&] { return in_flight_ <= in_flight; })) {
      if (cancelled && cancelled()) return absl::CancelledError("cancelled while compiling");
    }
    return failure_;
  }

  CompileReport Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::move(report_);
  }

 private:
  void Add(const std::string& variant, bool counts, absl::StatusOr<CompileResult> result) {
    if (result.ok() && result->variant.outcome != Outcome::kOk) {
      AddFinding(variant, absl::StrCat(ToText(result->variant.outcome), ": ", result->variant.log));
    }
    std::lock_guard<std::mutex> lock(mutex_);
    --in_flight_;
    if (!result.ok()) failure_ = result.status();
    if (counts && result.ok() && result->variant.outcome == Outcome::kOk) ++report_.compiled;
    changed_.notify_all();
  }

  CompilePool& pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  size_t in_flight_ = 0;
  absl::Status failure_;
  CompileReport report_;
};

}  // namespace

absl::StatusOr<CompileReport> CompileOnly(const Kernel& kernel, const Problem& problem,
                                          const TargetTraits& traits,
                                          const std::vector<Config>& configs, CompilePool& pool,
                                          const Cancelled& cancelled) {
  const size_t in_flight_max = kQueuedPerWorker * static_cast<size_t>(pool.workers());
  Collector collector(pool);
  absl::StatusOr<ProblemPlan> problem_plan = kernel.PlanProblem(problem, traits);
  if (problem_plan.ok()) {
    collector.Submit("reference", std::move(problem_plan->reference_compile), false);
  } else {
    collector.AddFinding("reference", std::string(problem_plan.status().message()));
  }
  for (const Config& config : configs) {
    absl::StatusOr<VariantPlan> plan = kernel.PlanVariant(problem, traits, config);
    if (!plan.ok()) {
      collector.AddFinding(ToText(config), std::string(plan.status().message()));
      continue;
    }
    collector.Submit(ToText(config), std::move(plan->compile), true);
    RETURN_IF_ERROR(collector.Await(in_flight_max - 1, cancelled));
  }
  RETURN_IF_ERROR(collector.Await(0, cancelled));
  return collector.Take();
}

}  // namespace tune::server
