// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/prepared_problem.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tuner/device/checker.h"
#include "tuner/device/fill.h"
#include "tuner/device/structured_fill.h"

namespace tune::cuda {
namespace {

// A page, which also keeps the data aligned for every kind of access.
constexpr size_t kGuardBytes = 4096;
// Left free for the driver, CUPTI's buffers and the variants' own code and stacks.
constexpr size_t kMemoryReserveBytes = 512u << 20;

// The guard after the data begins at the very next byte.
size_t GuardedBytes(const BufferPlan& plan) { return DataBytes(plan) + 2 * kGuardBytes; }

std::string GiB(size_t bytes) { return absl::StrFormat("%.2f GiB", bytes / 1073741824.0); }

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedProblem>> PreparedProblem::Create(
    const DeviceContext& context, Harness& harness, const ProblemPlan& plan,
    const std::string& reference_binary, uint64_t seed) {
  std::unique_ptr<PreparedProblem> problem(new PreparedProblem(context, harness));
  RETURN_IF_ERROR(problem->CheckFits(plan));
  RETURN_IF_ERROR(problem->Allocate(plan));
  RETURN_IF_ERROR(problem->SetGuards());
  RETURN_IF_ERROR(problem->FillAll(seed));
  if (!plan.reference.steps.empty()) {
    RETURN_IF_ERROR(problem->RunReference(plan, reference_binary));
  }
  RETURN_IF_ERROR(problem->TakeExpected(plan));
  RETURN_IF_ERROR(problem->CheckReference());
  if (HasChecker(plan)) RETURN_IF_ERROR(problem->LoadChecker(plan));
  return problem;
}

absl::Status PreparedProblem::CheckFits(const ProblemPlan& plan) const {
  if (plan.buffers.size() > static_cast<size_t>(kBuffersMax)) {
    return absl::InvalidArgumentError(absl::StrCat("the kernel has ", plan.buffers.size(),
                                                   " buffers; ", kBuffersMax, " are possible"));
  }
  ASSIGN_OR_RETURN(double needed, BytesNeeded(plan));
  needed += 2.0 * kGuardBytes * static_cast<double>(plan.buffers.size());
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_ERROR(
      context_.Check(context_.driver.cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo"));
  const size_t usable = free_bytes - std::min(free_bytes, kMemoryReserveBytes);
  if (needed <= static_cast<double>(usable)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the problem needs %.2f GiB of device memory with its reference; %s of the %s of %s is free",
      needed / 1073741824.0, GiB(usable), GiB(total_bytes), context_.name));
}

absl::Status PreparedProblem::Allocate(const ProblemPlan& plan) {
  for (const BufferPlan& buffer : plan.buffers) {
    Slot slot;
    slot.plan = buffer;
    slot.tolerance = ToleranceFor(plan, buffer);
    if (const BufferFile* file = FileOf(plan, buffer.name, /*expected=*/false); file != nullptr) {
      slot.file = file->elements;
    }
    ASSIGN_OR_RETURN(slot.memory, DeviceMemory::Allocate(context_, GuardedBytes(buffer)));
    slot.data = {buffer.dtype, slot.memory.address() + kGuardBytes, buffer.count};
    if (buffer.role == Role::kInOut) {
      ASSIGN_OR_RETURN(slot.pristine,
                       DeviceMemory::Allocate(context_, std::max<size_t>(DataBytes(buffer), 1)));
    }
    if (IsChecked(buffer.role) && !plan.reference.steps.empty()) {
      ASSIGN_OR_RETURN(const BufferPlan reference, ReferenceBuffer(plan, buffer));
      ASSIGN_OR_RETURN(slot.reference_memory,
                       DeviceMemory::Allocate(context_, std::max<size_t>(DataBytes(reference), 1)));
      slot.reference = {reference.dtype, slot.reference_memory.address(), buffer.count};
    }
    slots_.push_back(std::move(slot));
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::SetGuards() {
  std::vector<GuardRange> ranges;
  for (const Slot& slot : slots_) {
    if (slot.memory.bytes() == 0) {  // guards are found by their slot's place
      ranges.insert(ranges.end(), 2, {0, 0});
      continue;
    }
    ranges.push_back({slot.memory.address(), kGuardBytes});
    ranges.push_back({slot.data.address + slot.data.bytes(), kGuardBytes});
  }
  return harness_.SetGuards(ranges);
}

absl::Status PreparedProblem::FillSlot(Slot& slot) {
  if (slot.plan.role == Role::kOutput) return harness_.Poison(slot.data);
  if (slot.plan.role == Role::kScratch || slot.plan.count == 0) return absl::OkStatus();
  if (!slot.file.empty()) return Upload(slot.file, slot.data.address);
  return harness_.Fill(slot.data, slot.plan.fill, slot.fill_key);
}

absl::Status PreparedProblem::Upload(const std::string& elements, CUdeviceptr address) {
  return context_.Check(
      context_.driver.cuMemcpyHtoDAsync(address, elements.data(), elements.size(), context_.stream),
      "cuMemcpyHtoDAsync");
}

// Results that a file expects take precedence over what the reference wrote.
absl::Status PreparedProblem::TakeExpected(const ProblemPlan& plan) {
  for (Slot& slot : slots_) {
    const BufferFile* file = FileOf(plan, slot.plan.name, /*expected=*/true);
    if (file == nullptr || !IsChecked(slot.plan.role)) continue;
    ASSIGN_OR_RETURN(slot.reference_memory,
                     DeviceMemory::Allocate(context_, std::max<size_t>(file->elements.size(), 1)));
    slot.reference = {file->dtype, slot.reference_memory.address(), slot.plan.count};
    RETURN_IF_ERROR(Upload(file->elements, slot.reference.address));
  }
  return context_.Synchronize();  // the bytes are the caller's
}

absl::Status PreparedProblem::FillAll(uint64_t seed) {
  RETURN_IF_ERROR(harness_.BeginCheck());
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.fill_key = FillKey(seed, KeyNameOf(slot.plan).c_str());
    if (IsFilled(slot.plan.role) && slot.file.empty() && IsStructured(slot.plan.fill.kind)) {
      slot.file = StructuredElements(slot.plan, slot.fill_key);
    }
    RETURN_IF_ERROR(FillSlot(slot));
    if (slot.plan.role == Role::kInput || slot.plan.role == Role::kInOut) {
      RETURN_IF_ERROR(harness_.Hash(static_cast<int>(i), slot.data.address, slot.data.bytes()));
    }
    // There is none yet where a file holds what is right.
    const bool referenced = slot.reference_memory.address() != 0;
    if (slot.plan.role == Role::kOutput && referenced) {
      RETURN_IF_ERROR(harness_.Poison(slot.reference));
    }
    if (slot.plan.role != Role::kInOut || slot.plan.count == 0) continue;
    const DriverApi& driver = context_.driver;
    RETURN_IF_ERROR(
        context_.Check(driver.cuMemcpyDtoDAsync(slot.pristine.address(), slot.data.address,
                                                slot.data.bytes(), context_.stream),
                       "cuMemcpyDtoDAsync"));
    if (!referenced) continue;
    // Both kernels start from equal numbers: the reference from the narrow ones, made wide.
    if (slot.reference.dtype != slot.data.dtype) {
      RETURN_IF_ERROR(harness_.Widen(slot.reference, slot.data));
    } else {
      RETURN_IF_ERROR(
          context_.Check(driver.cuMemcpyDtoDAsync(slot.reference.address, slot.data.address,
                                                  slot.data.bytes(), context_.stream),
                         "cuMemcpyDtoDAsync"));
    }
  }
  RETURN_IF_ERROR(harness_.EndCheck());
  RETURN_IF_ERROR(context_.Synchronize());
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].input_hash = harness_.results().hashes[i];
  return absl::OkStatus();
}

absl::Status PreparedProblem::RunReference(const ProblemPlan& plan, const std::string& binary) {
  auto at_fault = [](const absl::Status& status) {
    return absl::InvalidArgumentError(absl::StrCat("the reference failed: ", status.message()));
  };
  absl::StatusOr<LoadedProgram> reference =
      LoadedProgram::Load(context_, WithBinary(plan.reference, binary),
                          [this](const BufferPlan& wanted) { return ResolveReference(wanted); });
  if (absl::IsUnavailable(reference.status()) || absl::IsResourceExhausted(reference.status())) {
    return reference.status();
  }
  if (!reference.ok()) return at_fault(reference.status());
  absl::Status status = reference->SetSymbols();
  if (status.ok()) status = reference->Launch();
  if (status.ok()) status = context_.Synchronize();
  if (status.ok() || absl::IsUnavailable(status)) return status;
  reference->Abandon();
  return at_fault(status);
}

// The reference's outputs against themselves: only a NaN differs, and what was never written is
// one. Also learns their hashes, and holds the reference to the same rules as any variant.
absl::Status PreparedProblem::CheckReference() {
  RETURN_IF_ERROR(harness_.BeginCheck());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.reference.address == 0 || slot.plan.count == 0) continue;  // a checker needs none
    const int index = static_cast<int>(i);
    RETURN_IF_ERROR(harness_.Compare(index, slot.reference, slot.reference, {}));
    RETURN_IF_ERROR(harness_.Hash(index, slot.reference.address, slot.reference.bytes()));
  }
  RETURN_IF_ERROR(harness_.CheckGuards());
  RETURN_IF_ERROR(harness_.EndCheck());
  RETURN_IF_ERROR(context_.Synchronize());
  const CheckResults& results = harness_.results();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.reference_hash = results.hashes[i];
    if (const CompareResult& compare = results.compare[i]; compare.nan > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the reference leaves ", compare.nan, " of ", slot.plan.count, " elements of '",
          slot.plan.name, "' unwritten or NaN, the first of them at ", compare.worst_index,
          "; where some are meant to keep what they hold, it is a ROLE_INOUT with a fill"));
    }
  }
  Verdict verdict;
  JudgeGuards(results, verdict);
  if (!verdict.right) {
    return absl::InvalidArgumentError(absl::StrCat("the reference ", verdict.message));
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::LoadChecker(const ProblemPlan& plan) {
  ASSIGN_OR_RETURN(faults_, DeviceMemory::Allocate(context_, sizeof(TuneFaults)));
  absl::StatusOr<LoadedProgram> checker =
      LoadedProgram::Load(context_, WithBinary(plan.checker, plan.checker_binary),
                          [this](const BufferPlan& wanted) { return ResolveForChecker(wanted); });
  if (absl::IsUnavailable(checker.status()) || absl::IsResourceExhausted(checker.status())) {
    return checker.status();
  }
  if (!checker.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the checker: ", checker.status().message()));
  }
  checker_.emplace(*std::move(checker));
  const absl::Status tried = TryChecker();
  if (!absl::IsAborted(tried)) return tried;
  checker_->Abandon();
  return absl::InvalidArgumentError(tried.message());
}

absl::StatusOr<Harness::Array> PreparedProblem::ResolveForChecker(const BufferPlan& wanted) {
  if (wanted.name == kFaultsBuffer) {
    return Harness::Array{DType::kU8, faults_.address(), sizeof(TuneFaults)};
  }
  const std::string output = OutputOfReference(wanted);
  const Slot* slot = Find(output.empty() ? wanted.name : output);
  if (slot != nullptr && slot->plan.count == wanted.count) {
    const Harness::Array& array = output.empty() ? slot->data : slot->reference;
    if (array.address != 0 && array.dtype == wanted.dtype) return array;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no '", wanted.name, "' of ", ToText(wanted.dtype)));
}

// It must find faults in what was never written, and none in what the reference wrote.
absl::Status PreparedProblem::TryChecker() {
  const auto fails = [](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("the checker ", why...));
  };
  Verdict unwritten;
  RETURN_IF_ERROR(RestoreInOuts());
  RETURN_IF_ERROR(PoisonOutputs());
  RETURN_IF_ERROR(RunChecker(unwritten));
  const bool has_output = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.plan.role == Role::kOutput && slot.plan.count > 0;
  });
  if (unwritten.right && has_output) return fails("finds no fault in outputs that nobody wrote");
  bool comparable = true;
  for (const Slot& slot : slots_) {
    if (!IsChecked(slot.plan.role)) continue;
    comparable =
        comparable && slot.reference.address != 0 && slot.reference.dtype == slot.plan.dtype;
  }
  if (!comparable) return absl::OkStatus();
  for (const Slot& slot : slots_) {
    if (!IsChecked(slot.plan.role) || slot.plan.count == 0) continue;
    RETURN_IF_ERROR(
        context_.Check(context_.driver.cuMemcpyDtoDAsync(slot.data.address, slot.reference.address,
                                                         slot.data.bytes(), context_.stream),
                       "cuMemcpyDtoDAsync"));
  }
  Verdict right;
  RETURN_IF_ERROR(RunChecker(right));
  if (right.right) return absl::OkStatus();
  return fails("is wrong, or the reference is: of the reference's outputs, ", right.message);
}

// Waits for the stream.
absl::Status PreparedProblem::RunChecker(Verdict& verdict) {
  const DriverApi& driver = context_.driver;
  TuneFaults faults = {};
  RETURN_IF_ERROR(
      context_.Check(driver.cuMemsetD8Async(faults_.address(), 0, sizeof(faults), context_.stream),
                     "cuMemsetD8Async"));
  absl::Status ran = checker_->SetSymbols();
  if (ran.ok()) ran = checker_->Launch();
  if (ran.ok()) ran = context_.Synchronize();
  if (!ran.ok()) return absl::Status(ran.code(), absl::StrCat("the checker: ", ran.message()));
  RETURN_IF_ERROR(context_.Check(
      driver.cuMemcpyDtoHAsync(&faults, faults_.address(), sizeof(faults), context_.stream),
      "cuMemcpyDtoHAsync"));
  RETURN_IF_ERROR(harness_.BeginCheck());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.plan.role != Role::kInput || slot.plan.count == 0) continue;
    RETURN_IF_ERROR(harness_.Hash(static_cast<int>(i), slot.data.address, slot.data.bytes()));
  }
  RETURN_IF_ERROR(harness_.CheckGuards());
  RETURN_IF_ERROR(harness_.EndCheck());
  RETURN_IF_ERROR(context_.Synchronize());
  Verdict own;
  JudgeGuards(harness_.results(), own);
  JudgeInputs(harness_.results(), own);
  if (!own.right) {
    RETURN_IF_ERROR(Repair());
    return absl::AbortedError(absl::StrCat("the checker ", own.message));
  }
  AddFaults(faults, verdict);
  return absl::OkStatus();
}

PreparedProblem::Slot* PreparedProblem::Find(const std::string& name) {
  for (Slot& slot : slots_) {
    if (slot.plan.name == name) return &slot;
  }
  return nullptr;
}

absl::StatusOr<Harness::Array> PreparedProblem::ResolveReference(const BufferPlan& wanted) {
  const Slot* slot = Find(wanted.name);
  if (slot == nullptr && wanted.role != Role::kScratch) {
    return absl::InvalidArgumentError(
        absl::StrCat("the problem has no buffer '", wanted.name, "'"));
  }
  if (slot != nullptr && IsChecked(slot->plan.role)) return slot->reference;
  return Resolve(wanted);
}

absl::StatusOr<Harness::Array> PreparedProblem::Resolve(const BufferPlan& wanted) {
  Slot* slot = Find(wanted.name);
  RETURN_IF_ERROR(CheckWanted(wanted, slot == nullptr ? nullptr : &slot->plan));
  return wanted.role == Role::kScratch ? ResolveScratch(wanted, slot) : slot->data;
}

absl::StatusOr<Harness::Array> PreparedProblem::ResolveScratch(const BufferPlan& wanted,
                                                               Slot* slot) {
  if (slot != nullptr && slot->plan.count == wanted.count && slot->plan.dtype == wanted.dtype) {
    return slot->data;
  }
  // Another size than the last variant's: the guard behind it must move anyway.
  if (slot == nullptr) {
    if (slots_.size() >= static_cast<size_t>(kBuffersMax)) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kBuffersMax, " buffers"));
    }
    slots_.emplace_back();
    slot = &slots_.back();
  }
  // Without its memory the buffer fits no request, and has no guards.
  slot->plan = {.name = wanted.name, .count = -1, .role = wanted.role};
  slot->data = {};
  if (slot->memory.bytes() < GuardedBytes(wanted)) {
    slot->memory = DeviceMemory();
    absl::StatusOr<DeviceMemory> larger = DeviceMemory::Allocate(context_, GuardedBytes(wanted));
    if (!larger.ok()) {
      RETURN_IF_ERROR(SetGuards());  // those of the memory that went
      return larger.status();
    }
    slot->memory = *std::move(larger);
  }
  slot->plan = wanted;
  slot->data = {wanted.dtype, slot->memory.address() + kGuardBytes, wanted.count};
  RETURN_IF_ERROR(SetGuards());
  return slot->data;
}

absl::Status PreparedProblem::RestoreInOuts() {
  for (const Slot& slot : slots_) {
    if (slot.plan.role != Role::kInOut || slot.plan.count == 0) continue;
    RETURN_IF_ERROR(
        context_.Check(context_.driver.cuMemcpyDtoDAsync(slot.data.address, slot.pristine.address(),
                                                         slot.data.bytes(), context_.stream),
                       "cuMemcpyDtoDAsync"));
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::PoisonOutputs() {
  for (const Slot& slot : slots_) {
    if (slot.plan.role == Role::kOutput) RETURN_IF_ERROR(harness_.Poison(slot.data));
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::EnqueueCheck() {
  RETURN_IF_ERROR(harness_.BeginCheck());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.plan.count == 0) continue;
    const int index = static_cast<int>(i);
    if (IsChecked(slot.plan.role)) {
      if (checker_.has_value()) continue;  // once the stream is done
      RETURN_IF_ERROR(harness_.Compare(index, slot.data, slot.reference, slot.tolerance));
    } else if (slot.plan.role == Role::kInput) {
      RETURN_IF_ERROR(harness_.Hash(index, slot.data.address, slot.data.bytes()));
    }
  }
  RETURN_IF_ERROR(harness_.CheckGuards());
  return harness_.EndCheck();
}

absl::StatusOr<Verdict> PreparedProblem::ReadVerdict() {
  const CheckResults& results = harness_.results();
  Verdict verdict;
  JudgeGuards(results, verdict);
  JudgeInputs(results, verdict);
  if (checker_.has_value()) {
    if (!verdict.right) RETURN_IF_ERROR(Repair());  // the checker sees the inputs as they were
    RETURN_IF_ERROR(RunChecker(verdict));
  } else {
    JudgeOutputs(results, verdict);
  }
  if (verdict.right) return verdict;
  RETURN_IF_ERROR(Repair());
  ASSIGN_OR_RETURN(verdict.harness_damaged, ReferencesDamaged());
  if (verdict.harness_damaged) {
    verdict.message = "the reference's results in device memory were overwritten";
  }
  return verdict;
}

absl::Status PreparedProblem::Repair() {
  RETURN_IF_ERROR(harness_.RepairGuards());
  for (Slot& slot : slots_) {
    if (slot.plan.role == Role::kInput) RETURN_IF_ERROR(FillSlot(slot));
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::SetOutputs(const std::vector<BufferFile>& outputs) {
  for (const BufferFile& output : outputs) {
    const Slot* slot = Find(output.buffer);
    if (slot == nullptr || !IsChecked(slot->plan.role) || slot->plan.dtype != output.dtype ||
        slot->data.bytes() != output.elements.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the problem has no output '", output.buffer,
                                                     "' of ", output.elements.size(), " bytes of ",
                                                     ToText(output.dtype)));
    }
    if (!output.elements.empty()) {
      RETURN_IF_ERROR(Upload(output.elements, slot->data.address));
    }
  }
  return context_.Synchronize();  // the bytes are the caller's
}

void PreparedProblem::JudgeGuards(const CheckResults& results, Verdict& verdict) const {
  for (size_t i = 0; i < slots_.size() && verdict.right; ++i) {
    for (bool after : {false, true}) {
      const GuardResult& guard = results.guards[2 * i + (after ? 1 : 0)];
      if (guard.bad_bytes == 0) continue;
      verdict.right = false;
      const uint64_t distance = after ? guard.first_bad : kGuardBytes - guard.first_bad;
      verdict.message =
          absl::StrCat("wrote outside buffer '", slots_[i].plan.name, "': ", guard.bad_bytes,
                       " bytes ", after ? "after" : "before", " it, the first ", distance,
                       " bytes ", after ? "past its end" : "ahead of its start");
      break;
    }
  }
}

void PreparedProblem::JudgeInputs(const CheckResults& results, Verdict& verdict) const {
  for (size_t i = 0; i < slots_.size() && verdict.right; ++i) {
    const Slot& slot = slots_[i];
    if (slot.plan.role != Role::kInput || slot.plan.count == 0) continue;
    if (results.hashes[i] == slot.input_hash) continue;
    verdict.right = false;
    verdict.message = absl::StrCat("wrote to its input '", slot.plan.name, "'");
  }
}

void PreparedProblem::JudgeOutputs(const CheckResults& results, Verdict& verdict) const {
  OutputJudge judge;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!IsChecked(slot.plan.role) || slot.plan.count == 0) continue;
    judge.Add(slot.plan, slot.tolerance, results.compare[i], verdict);
  }
}

absl::StatusOr<bool> PreparedProblem::ReferencesDamaged() {
  RETURN_IF_ERROR(harness_.BeginCheck());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!IsChecked(slot.plan.role) || slot.plan.count == 0) continue;
    const int index = static_cast<int>(i);
    if (slot.reference.address != 0) {
      RETURN_IF_ERROR(harness_.Hash(index, slot.reference.address, slot.reference.bytes()));
    }
    if (slot.plan.role != Role::kInOut) continue;
    RETURN_IF_ERROR(harness_.Hash(kBuffersMax + index, slot.pristine.address(), slot.data.bytes()));
  }
  RETURN_IF_ERROR(harness_.EndCheck());
  RETURN_IF_ERROR(context_.Synchronize());
  const CheckResults& results = harness_.results();
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!IsChecked(slot.plan.role) || slot.plan.count == 0) continue;
    if (results.hashes[i] != slot.reference_hash) return true;
    if (slot.plan.role == Role::kInOut && results.hashes[kBuffersMax + i] != slot.input_hash) {
      return true;
    }
  }
  return false;
}

}  // namespace tune::cuda
