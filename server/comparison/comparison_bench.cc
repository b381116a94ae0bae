// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_bench.h"

#include <algorithm>
#include <future>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "tuner/device/problem_checks.h"
#include "tuner/device/structured_fill.h"

namespace tune::server {
namespace {

// A kernel that cannot be prepared, not a device that is lost.
bool IsKernelsFault(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
}

RunReport NotRun(const std::string& why) {
  return {.outcome = Outcome::kLaunchFailed, .message = why};
}

bool IsAlike(const BufferPlan& one, const BufferPlan& other) {
  return one.dtype == other.dtype && one.count == other.count;
}

// Of buffers that are alike. Plain fills do not care for rows and columns.
bool FillsAlike(const BufferPlan& one, const BufferPlan& other) {
  const auto facts = [](const BufferPlan& buffer) {
    const Fill& fill = buffer.fill;
    const bool shaped = IsStructured(fill.kind);
    return std::tuple(fill.kind, fill.low, fill.high, shaped ? fill.rows : 0,
                      shaped ? fill.columns : 0, KeyNameOf(buffer), fill.lengths);
  };
  return facts(one) == facts(other);
}

// Takes what `from` is filled with. Was it filled otherwise?
bool TakeFill(const ProblemPlan& first, const BufferPlan& from, ProblemPlan& problem,
              BufferPlan& buffer) {
  const BufferFile* wanted = FileOf(first, from.name, /*expected=*/false);
  const BufferFile* known = FileOf(problem, buffer.name, /*expected=*/false);
  const bool both = wanted != nullptr && known != nullptr;
  const bool neither = wanted == nullptr && known == nullptr;
  if (both && wanted->elements == known->elements) return false;
  if (neither && FillsAlike(from, buffer)) return false;
  buffer.fill = from.fill;
  std::erase_if(problem.files, [&](const BufferFile& file) {
    return file.buffer == buffer.name && !file.expected;
  });
  if (wanted != nullptr) problem.files.push_back(*wanted);
  return true;
}

// What is right is computed of what the kernel is given.
void RenewHostCall(ProblemPlan& problem) {
  if (problem.host_reference.entries.empty()) return;
  HostCall& call = problem.host_reference.call;
  for (BufferPlan& buffer : call.buffers) buffer = *FindBuffer(problem, buffer.name);
  call.files.clear();
  for (const BufferFile& file : problem.files) {
    if (!file.expected) call.files.push_back(file);
  }
}

// A buffer of another kernel as the problem has it: an output that the problem has not is scratch.
// INVALID_ARGUMENT, in words for people: it has it otherwise.
absl::Status Adopt(const ProblemPlan& problem, BufferPlan& buffer) {
  if (buffer.role == Role::kScratch) return absl::OkStatus();
  const BufferPlan* known = FindBuffer(problem, buffer.name);
  if (known == nullptr) {
    buffer.role = Role::kScratch;
    return absl::OkStatus();
  }
  if (CheckWanted(buffer, known).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", buffer.name, "' is ", buffer.count, " ", ToText(buffer.dtype),
                   ", the first kernel's is ", known->count, " ", ToText(known->dtype),
                   known->role == buffer.role ? "" : ", or one reads what the other writes"));
}

// What a kernel runs, on the problem of another. INVALID_ARGUMENT as Adopt.
absl::StatusOr<Program> ProgramOn(const ProblemPlan& problem, const ComparedProgram& other) {
  Program program = WithBinary(other.plan, other.binary);
  for (StepPlan& step : program.steps) {
    for (ArgPlan& arg : step.args) {
      BufferPlan* buffer = BufferOf(arg);
      if (buffer != nullptr) RETURN_IF_ERROR(Adopt(problem, *buffer));
    }
  }
  for (SymbolPlan& symbol : program.symbols) RETURN_IF_ERROR(Adopt(problem, symbol.buffer));
  return program;
}

}  // namespace

absl::Status ShareInputs(const ProblemPlan& first, ProblemPlan& problem,
                         std::vector<std::string>& notes) {
  std::vector<std::string> changed;
  for (BufferPlan& buffer : problem.buffers) {
    if (!IsFilled(buffer.role)) continue;
    const BufferPlan* from = FindBuffer(first, buffer.name);
    if (from == nullptr || !IsFilled(from->role)) {
      notes.push_back(absl::StrCat("the first kernel has no input '", buffer.name, "'"));
    } else if (!IsAlike(*from, buffer)) {
      notes.push_back(absl::StrCat("'", buffer.name, "' is not of the first kernel's size and type",
                                   ", so it is filled as its own spec says"));
    } else if (TakeFill(first, *from, problem, buffer)) {
      notes.push_back(
          absl::StrCat("'", buffer.name, "' is filled as the first kernel's spec says"));
      changed.push_back(buffer.name);
    }
  }
  RenewHostCall(problem);
  const auto right = std::find_if(problem.files.begin(), problem.files.end(),
                                  [](const BufferFile& file) { return file.expected; });
  if (changed.empty() || right == problem.files.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "its file of what is right of '", right->buffer, "' does not hold of the first kernel's ",
      absl::StrJoin(changed, ", "), "; give both specs the same fill or file of it"));
}

void AddInputs(const ProblemPlan& other, ProblemPlan& problem) {
  for (const BufferPlan& buffer : other.buffers) {
    const bool is_input = buffer.role == Role::kInput;
    if (!is_input || FindBuffer(problem, buffer.name) != nullptr) continue;
    problem.buffers.push_back(buffer);
    const BufferFile* file = FileOf(other, buffer.name, /*expected=*/false);
    if (file != nullptr) problem.files.push_back(*file);
  }
}

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
    opening.push_back(
        std::async(std::launch::async, [this, &twin] { return twin->Open(cancelled_); }));
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
  for (const ComparedProgram* other : others) AddInputs(other->problem, problem);
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
    const absl::StatusOr<Program> program = ProgramOn(problem, *other);
    if (!program.ok()) {
      reports.push_back(
          {.outcome = Outcome::kInvalidConfig, .message = std::string(program.status().message())});
      continue;
    }
    ASSIGN_OR_RETURN(reports.emplace_back(), twins_[0]->Run({*program, once}, cancelled_));
  }
  return reports;
}

}  // namespace tune::server
