// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/host_problem.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tuner/device/checker.h"
#include "tuner/device/cpu/cache_flush.h"
#include "tuner/device/cpu/fault_report.h"
#include "tuner/device/elements.h"
#include "tuner/device/fill.h"
#include "tuner/device/structured_fill.h"

namespace tune::cpu {
namespace {

constexpr double kGiB = 1073741824.0;
constexpr int64_t kGrain = 65536;
constexpr unsigned char kPoisonFloat = 0xff;  // all ones is a NaN in every format
constexpr unsigned char kPoisonInteger = 0xa5;

unsigned char PoisonByte(DType dtype) { return IsFloat(dtype) ? kPoisonFloat : kPoisonInteger; }

}  // namespace

absl::StatusOr<std::unique_ptr<HostProblem>> HostProblem::Create(
    Launcher& launcher, const ProblemPlan& plan, const std::string& reference_binary, uint64_t seed,
    int64_t memory_bytes_max) {
  std::unique_ptr<HostProblem> problem(new HostProblem(launcher));
  problem->memory_bytes_max_ = memory_bytes_max;
  RETURN_IF_ERROR(problem->CheckFits(plan));
  RETURN_IF_ERROR(problem->Allocate(plan));
  problem->FillAll(seed);
  if (!plan.reference.steps.empty()) {
    RETURN_IF_ERROR(problem->RunReference(plan, reference_binary));
  }
  RETURN_IF_ERROR(problem->TakeExpected(plan));
  RETURN_IF_ERROR(problem->CheckReference());
  if (HasChecker(plan)) RETURN_IF_ERROR(problem->LoadChecker(plan));
  return problem;
}

absl::Status HostProblem::CheckFits(const ProblemPlan& plan) const {
  ASSIGN_OR_RETURN(const double needed, BytesNeeded(plan));
  if (needed <= static_cast<double>(memory_bytes_max_)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the problem needs %.2f GiB with its reference; half of the host's memory, %.2f GiB, may be "
      "used: choose smaller dims",
      needed / kGiB, static_cast<double>(memory_bytes_max_) / kGiB));
}

absl::Status HostProblem::Allocate(const ProblemPlan& plan) {
  for (const BufferPlan& buffer : plan.buffers) {
    Slot slot;
    slot.plan = buffer;
    slot.tolerance = ToleranceFor(plan, buffer);
    if (const BufferFile* file = FileOf(plan, buffer.name, /*expected=*/false); file != nullptr) {
      slot.file = file->elements;
    }
    const auto index = static_cast<unsigned>(slots_.size());
    ASSIGN_OR_RETURN(slot.memory, GuardedBuffer::Allocate(DataBytes(buffer), index));
    slot.memory.Name(absl::StrCat("buffer '", buffer.name, "'"));
    if (buffer.role == Role::kInOut) {
      ASSIGN_OR_RETURN(slot.pristine, GuardedBuffer::Allocate(DataBytes(buffer), index));
    }
    if (IsChecked(buffer.role) && !plan.reference.steps.empty()) {
      ASSIGN_OR_RETURN(const BufferPlan reference, ReferenceBuffer(plan, buffer));
      ASSIGN_OR_RETURN(slot.reference_memory, GuardedBuffer::Allocate(DataBytes(reference), index));
      slot.reference_memory.Name(absl::StrCat("the reference's buffer '", buffer.name, "'"));
      slot.reference = {reference.dtype, slot.reference_memory.data(), buffer.count};
    }
    slots_.push_back(std::move(slot));
  }
  return absl::OkStatus();
}

void HostProblem::SetBytes(void* data, size_t bytes, unsigned char byte) {
  const auto count = static_cast<int64_t>(bytes);
  launcher_.ForPieces(count, kGrain, [&](unsigned, int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(data) + begin, byte, static_cast<size_t>(end - begin));
  });
}

void HostProblem::CopyBytes(void* to, const void* from, size_t bytes) {
  const auto count = static_cast<int64_t>(bytes);
  launcher_.ForPieces(count, kGrain, [&](unsigned, int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

void HostProblem::FillSlot(Slot& slot) {
  if (!IsFilled(slot.plan.role)) {
    return SetBytes(slot.memory.data(), slot.memory.bytes(), PoisonByte(slot.plan.dtype));
  }
  if (!slot.file.empty()) return CopyBytes(slot.memory.data(), slot.file.data(), slot.file.size());
  launcher_.ForPieces(slot.plan.count, kGrain, [&](unsigned, int64_t begin, int64_t end) {
    FillElements(slot.plan.dtype, slot.plan.fill, slot.fill_key, begin, end, slot.memory.data());
  });
}

void HostProblem::FillAll(uint64_t seed) {
  for (Slot& slot : slots_) {
    slot.fill_key = FillKey(seed, KeyNameOf(slot.plan).c_str());
    if (IsFilled(slot.plan.role) && slot.file.empty() && IsStructured(slot.plan.fill.kind)) {
      slot.file = StructuredElements(slot.plan, slot.fill_key);
    }
    FillSlot(slot);
    if (slot.plan.role == Role::kInput) {
      slot.input_hash = Hash(launcher_, slot.memory.data(), slot.memory.bytes());
    }
    if (slot.plan.role == Role::kOutput && slot.reference.data != nullptr) {
      SetBytes(slot.reference.data, slot.reference_memory.bytes(),
               PoisonByte(slot.reference.dtype));
    }
    if (slot.plan.role != Role::kInOut) continue;
    CopyBytes(slot.pristine.data(), slot.memory.data(), slot.memory.bytes());
    slot.pristine.MakeReadOnly();
    if (slot.reference.data == nullptr) continue;
    // Both kernels start from equal numbers: the reference from the narrow ones, made wide.
    if (slot.reference.dtype == slot.plan.dtype) {
      CopyBytes(slot.reference.data, slot.memory.data(), slot.memory.bytes());
      continue;
    }
    launcher_.ForPieces(slot.plan.count, kGrain, [&](unsigned, int64_t begin, int64_t end) {
      WidenElements(slot.plan.dtype, slot.memory.data(), slot.reference.dtype, slot.reference.data,
                    begin, end);
    });
  }
}

absl::Status HostProblem::RunReference(const ProblemPlan& plan, const std::string& binary) {
  absl::StatusOr<LoadedProgram> reference =
      LoadedProgram::Load(WithBinary(plan.reference, binary),
                          [this](const BufferPlan& wanted) { return ResolveReference(wanted); });
  if (absl::IsResourceExhausted(reference.status())) return reference.status();
  absl::Status status = reference.status();
  if (status.ok()) {
    reference->FillGuards(launcher_);
    status = reference->Launch(launcher_).status();
  }
  if (status.ok()) {
    const std::string damage = reference->DescribeDamage(launcher_);
    if (damage.empty()) return status;
    return absl::InvalidArgumentError(absl::StrCat("the reference ", damage));
  }
  return absl::InvalidArgumentError(absl::StrCat("the reference failed: ", status.message()));
}

// Expected values from a file take precedence over the reference's results.
absl::Status HostProblem::TakeExpected(const ProblemPlan& plan) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const BufferFile* file = FileOf(plan, slot.plan.name, /*expected=*/true);
    if (file == nullptr || !IsChecked(slot.plan.role)) continue;
    ASSIGN_OR_RETURN(slot.reference_memory,
                     GuardedBuffer::Allocate(file->elements.size(), static_cast<unsigned>(i)));
    slot.reference = {file->dtype, slot.reference_memory.data(), slot.plan.count};
    CopyBytes(slot.reference.data, file->elements.data(), file->elements.size());
  }
  return absl::OkStatus();
}

// The reference's outputs against themselves: only a NaN differs, and what was never written is
// one.
absl::Status HostProblem::CheckReference() {
  for (Slot& slot : slots_) {
    if (slot.reference.data == nullptr) continue;  // a checker needs none
    if (std::string damage = slot.reference_memory.DescribeDamage(); !damage.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the reference wrote outside buffer '", slot.plan.name, "': ", damage));
    }
    slot.reference_memory.MakeReadOnly();
    const CompareResult compare = Compare(launcher_, slot.reference, slot.reference, {});
    if (compare.nan > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the reference leaves ", compare.nan, " of ", slot.plan.count, " elements of '",
          slot.plan.name, "' unwritten or NaN, the first of them at ", compare.worst_index,
          "; where some are meant to keep what they hold, it is a ROLE_INOUT with a fill"));
    }
  }
  Verdict verdict;
  JudgeGuards(verdict);
  JudgeInputs(verdict);
  if (verdict.right) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the reference ", verdict.message));
}

absl::Status HostProblem::LoadChecker(const ProblemPlan& plan) {
  ASSIGN_OR_RETURN(faults_, GuardedBuffer::Allocate(sizeof(TuneFaults), 0));
  faults_.Name("the checker's faults");
  absl::StatusOr<LoadedProgram> checker =
      LoadedProgram::Load(WithBinary(plan.checker, plan.checker_binary),
                          [this](const BufferPlan& wanted) { return ResolveForChecker(wanted); });
  if (absl::IsResourceExhausted(checker.status())) return checker.status();
  if (!checker.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the checker: ", checker.status().message()));
  }
  checker_.emplace(*std::move(checker));
  return TryChecker();
}

absl::StatusOr<void*> HostProblem::ResolveForChecker(const BufferPlan& wanted) {
  if (wanted.name == kFaultsBuffer) return faults_.data();
  const std::string output = OutputOfReference(wanted);
  const Slot* slot = Find(output.empty() ? wanted.name : output);
  if (slot != nullptr && slot->plan.count == wanted.count) {
    const HostArray array = output.empty() ? slot->data() : slot->reference;
    if (array.data != nullptr && array.dtype == wanted.dtype) return array.data;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no '", wanted.name, "' of ", ToText(wanted.dtype)));
}

// It must find faults in what was never written, and none in what the reference wrote.
absl::Status HostProblem::TryChecker() {
  const auto fails = [](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("the checker ", why...));
  };
  Verdict unwritten;
  RestoreInOuts();
  PoisonOutputs();
  if (absl::Status ran = RunChecker(unwritten); !ran.ok()) return fails("failed: ", ran.message());
  const bool has_output = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.plan.role == Role::kOutput && slot.plan.count > 0;
  });
  if (unwritten.right && has_output) return fails("finds no fault in outputs that nobody wrote");
  bool comparable = true;
  for (const Slot& slot : slots_) {
    if (!IsChecked(slot.plan.role)) continue;
    comparable =
        comparable && slot.reference.data != nullptr && slot.reference.dtype == slot.plan.dtype;
  }
  if (!comparable) return absl::OkStatus();
  for (const Slot& slot : slots_) {
    if (!IsChecked(slot.plan.role)) continue;
    CopyBytes(slot.memory.data(), slot.reference.data, slot.memory.bytes());
  }
  Verdict right;
  if (absl::Status ran = RunChecker(right); !ran.ok()) return fails("failed: ", ran.message());
  if (right.right) return absl::OkStatus();
  return fails("is wrong, or the reference is: of the reference's outputs, ", right.message);
}

absl::Status HostProblem::RunChecker(Verdict& verdict) {
  SetBytes(faults_.data(), faults_.bytes(), 0);
  checker_->FillGuards(launcher_);
  {
    const FaultActor actor("the checker");
    const absl::Status ran = checker_->Launch(launcher_).status();
    if (!ran.ok()) return absl::Status(ran.code(), absl::StrCat("the checker: ", ran.message()));
  }
  Verdict own;
  if (const std::string damage = checker_->DescribeDamage(launcher_); !damage.empty()) {
    return absl::AbortedError(absl::StrCat("the checker ", damage));
  }
  if (const std::string damage = faults_.DescribeDamage(); !damage.empty()) {
    faults_.SetGuards();
    return absl::AbortedError(absl::StrCat("the checker wrote outside its faults: ", damage));
  }
  JudgeGuards(own);
  JudgeInputs(own);
  if (!own.right) {
    Repair();
    return absl::AbortedError(absl::StrCat("the checker ", own.message));
  }
  AddFaults(*static_cast<const TuneFaults*>(faults_.data()), verdict);
  return absl::OkStatus();
}

HostProblem::Slot* HostProblem::Find(const std::string& name) {
  for (Slot& slot : slots_) {
    if (slot.plan.name == name) return &slot;
  }
  return nullptr;
}

absl::StatusOr<void*> HostProblem::ResolveReference(const BufferPlan& wanted) {
  Slot* slot = Find(wanted.name);
  if (slot == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the problem has no buffer '", wanted.name, "'"));
  }
  if (IsChecked(slot->plan.role)) return slot->reference.data;
  return Resolve(wanted);
}

absl::StatusOr<void*> HostProblem::Resolve(const BufferPlan& wanted) {
  Slot* slot = Find(wanted.name);
  RETURN_IF_ERROR(CheckWanted(wanted, slot == nullptr ? nullptr : &slot->plan));
  return wanted.role == Role::kScratch ? ResolveScratch(wanted, slot) : slot->memory.data();
}

absl::StatusOr<void*> HostProblem::ResolveScratch(const BufferPlan& wanted, Slot* slot) {
  if (slot != nullptr && slot->plan.count == wanted.count && slot->plan.dtype == wanted.dtype) {
    return slot->memory.data();
  }
  if (static_cast<double>(wanted.count) * static_cast<double>(SizeInBytes(wanted.dtype)) >
      static_cast<double>(memory_bytes_max_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("scratch '", wanted.name, "' of ", wanted.count, " elements is too large"));
  }
  if (slot == nullptr) {
    slots_.emplace_back();
    slot = &slots_.back();
    slot->plan.name = wanted.name;
    slot->plan.role = wanted.role;
  }
  // Another size than the last variant's: its guard must lie right behind it.
  slot->plan.count = -1;
  slot->memory = GuardedBuffer();
  ASSIGN_OR_RETURN(slot->memory, GuardedBuffer::Allocate(DataBytes(wanted),
                                                         static_cast<unsigned>(slot - &slots_[0])));
  slot->plan = wanted;
  FillSlot(*slot);
  return slot->memory.data();
}

void HostProblem::RestoreInOuts() {
  for (const Slot& slot : slots_) {
    if (slot.plan.role != Role::kInOut) continue;
    CopyBytes(slot.memory.data(), slot.pristine.data(), slot.memory.bytes());
  }
}

void HostProblem::PoisonOutputs() {
  for (Slot& slot : slots_) {
    if (slot.plan.role == Role::kOutput) FillSlot(slot);
  }
}

void HostProblem::FlushFromCaches() {
  for (const Slot& slot : slots_) {
    const char* data = static_cast<const char*>(slot.memory.data());
    launcher_.ForPieces(static_cast<int64_t>(slot.memory.bytes()), kGrain,
                        [data](unsigned, int64_t begin, int64_t end) {
                          cpu::FlushFromCaches(data + begin, static_cast<size_t>(end - begin));
                        });
  }
}

absl::StatusOr<Verdict> HostProblem::Check() {
  Verdict verdict;
  JudgeGuards(verdict);
  JudgeInputs(verdict);
  if (checker_.has_value()) {
    if (!verdict.right) Repair();  // the checker sees the inputs as they were
    RETURN_IF_ERROR(RunChecker(verdict));
    return verdict;
  }
  JudgeOutputs(verdict);
  if (!verdict.right) Repair();
  return verdict;
}

absl::Status HostProblem::SetOutputs(const std::vector<BufferFile>& outputs) {
  for (const BufferFile& output : outputs) {
    const Slot* slot = Find(output.buffer);
    if (slot == nullptr || !IsChecked(slot->plan.role) || slot->plan.dtype != output.dtype ||
        slot->memory.bytes() != output.elements.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the problem has no output '", output.buffer,
                                                     "' of ", output.elements.size(), " bytes of ",
                                                     ToText(output.dtype)));
    }
    CopyBytes(slot->memory.data(), output.elements.data(), output.elements.size());
  }
  return absl::OkStatus();
}

void HostProblem::Repair() {
  for (Slot& slot : slots_) {
    // A scratch buffer that there was no memory for.
    if (slot.memory.data() == nullptr) continue;
    slot.memory.SetGuards();
    if (slot.plan.role == Role::kInput) FillSlot(slot);
  }
}

void HostProblem::JudgeGuards(Verdict& verdict) const {
  for (const Slot& slot : slots_) {
    if (!verdict.right || slot.memory.data() == nullptr) continue;
    const std::string damage = slot.memory.DescribeDamage();
    if (damage.empty()) continue;
    verdict.right = false;
    verdict.message = absl::StrCat("wrote outside buffer '", slot.plan.name, "': ", damage);
  }
}

void HostProblem::JudgeInputs(Verdict& verdict) const {
  for (const Slot& slot : slots_) {
    if (!verdict.right || slot.plan.role != Role::kInput) continue;
    if (Hash(launcher_, slot.memory.data(), slot.memory.bytes()) == slot.input_hash) continue;
    verdict.right = false;
    verdict.message = absl::StrCat("wrote to its input '", slot.plan.name, "'");
  }
}

std::string HostProblem::DescribeUnwritten(const Slot& slot) const {
  if (slot.plan.role != Role::kOutput) return "";
  const size_t size = SizeInBytes(slot.plan.dtype);
  const std::string poison(size, static_cast<char>(PoisonByte(slot.plan.dtype)));
  const char* data = static_cast<const char*>(slot.memory.data());
  int64_t first = -1;
  int64_t unwritten = 0;
  for (int64_t i = 0; i < slot.plan.count; ++i) {
    if (std::memcmp(data + static_cast<size_t>(i) * size, poison.data(), size) != 0) continue;
    if (first < 0) first = i;
    ++unwritten;
  }
  if (first < 0) return "";
  const std::string share = absl::StrCat(unwritten, " of ", slot.plan.count);
  if (first == 0 && unwritten == slot.plan.count) {
    return absl::StrCat("'", slot.plan.name, "' was never written, in none of its elements");
  }
  if (unwritten == slot.plan.count - first) {
    return absl::StrCat("'", slot.plan.name, "' was never written from element ", first,
                        " to its end (", share, " elements): is the grid too small?");
  }
  return absl::StrCat("'", slot.plan.name, "' was never written in ", share,
                      " elements, the first of them ", first);
}

void HostProblem::JudgeOutputs(Verdict& verdict) const {
  OutputJudge judge;
  for (const Slot& slot : slots_) {
    if (!IsChecked(slot.plan.role) || slot.plan.count == 0) continue;
    const bool was_right = verdict.right;
    judge.Add(slot.plan, slot.tolerance,
              Compare(launcher_, slot.data(), slot.reference, slot.tolerance), verdict);
    if (!was_right || verdict.right) continue;
    const std::string unwritten = DescribeUnwritten(slot);
    if (!unwritten.empty()) verdict.message = absl::StrCat(unwritten, "; ", verdict.message);
  }
}

uint64_t HostProblem::HashOutputs() const {
  uint64_t hash = 0;
  for (const Slot& slot : slots_) {
    if (!IsChecked(slot.plan.role)) continue;
    hash = hash * 0x9e3779b97f4a7c15u + Hash(launcher_, slot.memory.data(), slot.memory.bytes());
  }
  return hash;
}

}  // namespace tune::cpu
