// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/compile_check.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(20);
// Compiles queued at once for each worker: enough to keep it busy, and little to throw away.
constexpr size_t kQueuedPerWorker = 4;
constexpr size_t kMessageBytesMax = 4096;
constexpr char kReference[] = "reference";
constexpr char kChecker[] = "checker";

// Collects what comes of compiles that run at the same time. Thread-safe.
class Collector {
 public:
  Collector(const Compilers& compilers, const CompileHooks& hooks)
      : compilers_(compilers), hooks_(hooks) {}
  ~Collector() { compilers_.Withdraw(this); }

  void Submit(std::string variant, const ProgramPlan& plan) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++in_flight_;
    }
    compilers_.Submit(this, plan,
                      [this, variant = std::move(variant)](absl::StatusOr<CompileResult> result) {
                        Add(variant, std::move(result));
                      });
  }

  // A variant that cannot be compiled at all.
  void Skip(const std::string& variant, std::string message) {
    std::lock_guard<std::mutex> lock(mutex_);
    Count(variant, std::move(message));
  }

  // Waits until at most `in_flight` are left.
  absl::Status Await(size_t in_flight, const Cancelled& cancelled) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, kPatience, [&] { return in_flight_ <= in_flight; })) {
      if (cancelled && cancelled()) return absl::CancelledError("cancelled while compiling");
    }
    return failure_;
  }

  uint64_t well() {
    std::lock_guard<std::mutex> lock(mutex_);
    return well_;
  }

 private:
  static std::string WhyNotWell(const CompileResult& result) {
    const Artifact& artifact = result.artifact;
    if (artifact.outcome == Outcome::kOk) return "";
    if (artifact.outcome == Outcome::kCompileFailed || result.misfit) return artifact.log;
    return absl::StrCat(ToText(artifact.outcome), ": ", artifact.log);
  }

  void Add(const std::string& variant, absl::StatusOr<CompileResult> result) {
    std::string why = result.ok() ? WhyNotWell(*result) : "";
    std::lock_guard<std::mutex> lock(mutex_);
    --in_flight_;
    if (result.ok()) {
      Count(variant, std::move(why));
    } else {
      failure_ = result.status();
    }
    changed_.notify_all();
  }

  void Count(const std::string& variant, std::string message) {
    if (message.size() > kMessageBytesMax) message.resize(kMessageBytesMax);
    const bool is_config = variant != kReference && variant != kChecker;
    if (!message.empty()) {
      hooks_.found(variant, message);
    } else if (is_config) {
      ++well_;
    }
    if (is_config) hooks_.progress(++done_);
  }

  const Compilers& compilers_;
  const CompileHooks& hooks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  size_t in_flight_ = 0;
  absl::Status failure_;
  uint64_t well_ = 0;
  uint64_t done_ = 0;
};

}  // namespace

absl::StatusOr<uint64_t> CompileOnly(const Kernel& kernel, const Problem& problem,
                                     const TargetTraits& traits, const std::vector<Config>& configs,
                                     const Compilers& compilers, const CompileHooks& hooks,
                                     const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(const CompilePool* pool, compilers.PoolFor(kernel.language(), traits.target));
  const size_t in_flight_max = kQueuedPerWorker * static_cast<size_t>(pool->workers());
  Collector collector(compilers, hooks);
  absl::StatusOr<ProblemPlan> problem_plan = kernel.PlanProblem(problem, traits);
  if (!problem_plan.ok()) {
    collector.Skip(kReference, std::string(problem_plan.status().message()));
  } else if (!problem_plan->reference.steps.empty()) {
    collector.Submit(kReference, problem_plan->reference);
  }
  if (problem_plan.ok() && !problem_plan->checker.steps.empty()) {
    collector.Submit(kChecker, problem_plan->checker);
  }
  // Calls the host-side reference: nothing else shows whether it can be called.
  if (problem_plan.ok() && !problem_plan->host_reference.entries.empty()) {
    collector.Submit(kReference, {.compile = problem_plan->host_reference});
  }
  for (const Config& config : configs) {
    absl::StatusOr<ProgramPlan> plan = kernel.PlanProgram(problem, traits, config);
    if (!plan.ok()) {
      collector.Skip(ToText(config), std::string(plan.status().message()));
      continue;
    }
    collector.Submit(ToText(config), *plan);
    RETURN_IF_ERROR(collector.Await(in_flight_max - 1, cancelled));
  }
  RETURN_IF_ERROR(collector.Await(0, cancelled));
  return collector.well();
}

}  // namespace tune::server
