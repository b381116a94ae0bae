// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_bench.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tuner/device/problem_checks.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

// A kernel that cannot be prepared, not a device that is lost.
bool IsKernelsFault(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
}

RunReport NotRun(const std::string& why) {
  return {.outcome = Outcome::kLaunchFailed, .message = why};
}

// Inputs that only another kernel has are filled beside those of the first.
void AddInputs(const ComparedProgram& other, ProblemPlan& problem) {
  for (const BufferPlan& buffer : other.problem.buffers) {
    const bool is_input = buffer.role == Role::kInput;
    if (is_input && FindBuffer(problem, buffer.name) == nullptr) problem.buffers.push_back(buffer);
  }
}

// The steps of a kernel on the problem of another: outputs that the problem has not are scratch.
// INVALID_ARGUMENT, in words for people: a buffer of both is not alike.
absl::StatusOr<std::vector<StepPlan>> StepsOn(ProblemPlan& problem, const ComparedProgram& other) {
  std::vector<StepPlan> steps = other.plan.steps;
  for (StepPlan& step : steps) {
    for (ArgPlan& arg : step.args) {
      BufferPlan* buffer = BufferOf(arg);
      if (buffer == nullptr || buffer->role == Role::kScratch) continue;
      const BufferPlan* known = FindBuffer(problem, buffer->name);
      if (known == nullptr) {
        buffer->role = Role::kScratch;
        continue;
      }
      if (!CheckWanted(*buffer, known).ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "'", buffer->name, "' is ", buffer->count, " ", ToText(buffer->dtype),
            ", the first kernel's is ", known->count, " ", ToText(known->dtype),
            known->role == buffer->role ? "" : ", or one reads what the other writes"));
      }
    }
  }
  return steps;
}

}  // namespace

ComparisonBench::ComparisonBench(const DeviceSupervisor& device, const std::vector<bool>& measured,
                                 const SamplePolicy& policy, uint64_t seed,
                                 const Cancelled& cancelled)
    : policy_(policy), seed_(seed), cancelled_(cancelled) {
  for (size_t i = 0; i < measured.size(); ++i) {
    twins_.push_back(measured[i] ? device.MakeTwin(absl::StrCat("compare", i)) : nullptr);
  }
}

absl::Status ComparisonBench::Renew() {
  Close();
  std::vector<std::future<absl::Status>> opening;
  for (const auto& twin : twins_) {
    if (twin == nullptr) continue;
    opening.push_back(std::async(std::launch::async,
                                 [this, &twin] { return twin->Open(cancelled_); }));
  }
  absl::Status status;
  for (std::future<absl::Status>& opened : opening) status.Update(opened.get());
  return status;
}

void ComparisonBench::Close() {
  for (const auto& twin : twins_) {
    if (twin != nullptr) twin->Close();
  }
}

absl::StatusOr<std::string> ComparisonBench::Prepare(size_t kernel, const ProblemPlan& problem,
                                                     const std::string& reference_binary) {
  DeviceSupervisor& twin = *twins_[kernel];
  absl::Status prepared = twin.Prepare(problem, reference_binary, seed_, cancelled_);
  if (absl::IsResourceExhausted(prepared)) {
    Close();
    prepared = twin.Prepare(problem, reference_binary, seed_, cancelled_);
  }
  if (prepared.ok()) return "";
  if (!IsKernelsFault(prepared)) return prepared;
  return std::string(prepared.message());
}

absl::StatusOr<RunReport> ComparisonBench::Measure(size_t kernel, const ComparedProgram& program) {
  ASSIGN_OR_RETURN(const std::string fault,
                   Prepare(kernel, program.problem, program.reference_binary));
  if (!fault.empty()) return NotRun(fault);
  return twins_[kernel]->Run({WithBinary(program.plan, program.binary), policy_}, cancelled_);
}

absl::StatusOr<RunReport> ComparisonBench::Judge(const ComparedProgram& first,
                                                 const std::vector<BufferFile>& outputs) {
  ASSIGN_OR_RETURN(const std::string fault, Prepare(0, first.problem, first.reference_binary));
  if (!fault.empty()) return NotRun(fault);
  return twins_[0]->Judge(outputs, cancelled_);
}

absl::StatusOr<std::vector<RunReport>> ComparisonBench::Agree(
    const ComparedProgram& first, const std::vector<const ComparedProgram*>& others) {
  ProblemPlan problem = first.problem;
  for (const ComparedProgram* other : others) AddInputs(*other, problem);
  ASSIGN_OR_RETURN(const std::string fault, Prepare(0, problem, first.reference_binary));
  const SamplePolicy once{.cache_mode = policy_.cache_mode,
                          .samples_min = 1,
                          .samples_max = 1,
                          .seconds_max = policy_.seconds_max,
                          .precision = 1};
  std::vector<RunReport> reports;
  for (const ComparedProgram* other : others) {
    if (!fault.empty()) {
      reports.push_back(NotRun(fault));
      continue;
    }
    const absl::StatusOr<std::vector<StepPlan>> steps = StepsOn(problem, *other);
    if (!steps.ok()) {
      reports.push_back({.outcome = Outcome::kInvalidConfig,
                         .message = std::string(steps.status().message())});
      continue;
    }
    ASSIGN_OR_RETURN(reports.emplace_back(),
                     twins_[0]->Run({{*steps, other->binary}, once}, cancelled_));
  }
  return reports;
}

}  // namespace tune::server
