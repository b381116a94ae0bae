// SPDX-License-Identifier: Apache-2.0
#include "server/measure/compile_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/measure/compile_set.h"

namespace tune::server {
namespace {

// Compiles queued at once for each worker: enough to keep it busy, and little to throw away.
constexpr size_t kQueuedPerWorker = 4;
constexpr size_t kMessageBytesMax = 4096;
constexpr char kReference[] = "reference";
constexpr char kChecker[] = "checker";

std::string WhyNotWell(const CompileResult& result) {
  const Artifact& artifact = result.artifact;
  if (artifact.outcome == Outcome::kOk) return "";
  if (artifact.outcome == Outcome::kCompileFailed || result.misfit) return artifact.log;
  return absl::StrCat(ToText(artifact.outcome), ": ", artifact.log);
}

// Counts variants, and reports those that are not well. Thread-safe.
class Tally {
 public:
  explicit Tally(const CompileHooks& hooks) : hooks_(hooks) {}

  void Count(const std::string& variant, std::string message) {
    MutexLock lock(mutex_);
    if (message.size() > kMessageBytesMax) message.resize(kMessageBytesMax);
    const bool is_config = variant != kReference && variant != kChecker;
    if (!message.empty()) {
      hooks_.found(variant, message);
    } else if (is_config) {
      ++well_;
    }
    if (is_config) hooks_.progress(++done_);
  }
  uint64_t well() {
    MutexLock lock(mutex_);
    return well_;
  }

 private:
  const CompileHooks& hooks_;
  Mutex mutex_;
  uint64_t well_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<uint64_t> CompileOnly(const Kernel& kernel, const Problem& problem,
                                     const TargetTraits& traits, const std::vector<Config>& configs,
                                     const Compilers& compilers, const CompileHooks& hooks,
                                     const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(const CompilePool* pool, compilers.PoolFor(kernel.language(), traits.target));
  const size_t in_flight_max = kQueuedPerWorker * static_cast<size_t>(pool->workers());
  Tally tally(hooks);
  CompileSet set(compilers);
  const auto compile = [&](const std::string& variant, const ProgramPlan& plan) {
    set.Add(plan, [&tally, variant](const CompileResult& result) {
      tally.Count(variant, WhyNotWell(result));
    });
  };
  absl::StatusOr<ProblemPlan> problem_plan = kernel.PlanProblem(problem, traits);
  if (!problem_plan.ok()) {
    tally.Count(kReference, std::string(problem_plan.status().message()));
  } else if (!problem_plan->reference.steps.empty()) {
    compile(kReference, problem_plan->reference);
  }
  if (problem_plan.ok() && !problem_plan->checker.steps.empty()) {
    compile(kChecker, problem_plan->checker);
  }
  // Calls the host-side reference: nothing else shows whether it can be called.
  if (problem_plan.ok() && !problem_plan->host_reference.entries.empty()) {
    compile(kReference, {.compile = problem_plan->host_reference});
  }
  for (const Config& config : configs) {
    absl::StatusOr<ProgramPlan> plan = kernel.PlanProgram(problem, traits, config);
    if (!plan.ok()) {
      tally.Count(ToText(config), std::string(plan.status().message()));
      continue;
    }
    compile(ToText(config), *plan);
    RETURN_IF_ERROR(set.Await(cancelled, in_flight_max - 1));
  }
  RETURN_IF_ERROR(set.Await(cancelled));
  return tally.well();
}

}  // namespace tune::server
