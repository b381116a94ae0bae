// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/host_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tuner/device/cpu/cache_flush.h"
#include "tuner/device/cpu/elements.h"
#include "tuner/device/cpu/loaded_kernel.h"
#include "tuner/device/fill.h"
#include "tuner/status_macros.h"

namespace tune::cpu {
namespace {

constexpr double kGiB = 1073741824.0;
constexpr int64_t kGrain = 65536;
constexpr unsigned char kPoisonFloat = 0xff;  // all ones is a NaN in every format
constexpr unsigned char kPoisonInteger = 0xa5;

bool IsChecked(Role role) { return role == Role::kOutput || role == Role::kInOut; }

size_t DataBytes(const BufferPlan& plan) {
  return static_cast<size_t>(plan.count) * static_cast<size_t>(SizeInBytes(plan.dtype));
}

const BufferPlan* FindReferenceArg(const ProblemPlan& plan, const std::string& name) {
  for (const ArgPlan& arg : plan.reference_args) {
    const auto* buffer = std::get_if<BufferPlan>(&arg);
    if (buffer != nullptr && buffer->name == name) return buffer;
  }
  return nullptr;
}

TolerancePlan ToleranceFor(const ProblemPlan& plan, DType dtype) {
  for (const auto& [of, tolerance] : plan.tolerances) {
    if (of == dtype) return tolerance;
  }
  return {};
}

unsigned char PoisonByte(DType dtype) { return IsFloat(dtype) ? kPoisonFloat : kPoisonInteger; }

absl::Status CheckCount(const BufferPlan& buffer) {
  if (buffer.count >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("buffer '", buffer.name, "' has ", buffer.count, " elements"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostProblem>> HostProblem::Create(
    Launcher& launcher, const ProblemPlan& plan, const std::string& reference_binary, uint64_t seed,
    int64_t memory_bytes_max) {
  std::unique_ptr<HostProblem> problem(new HostProblem(launcher));
  problem->memory_bytes_max_ = memory_bytes_max;
  RETURN_IF_ERROR(problem->CheckFits(plan));
  RETURN_IF_ERROR(problem->Allocate(plan));
  problem->FillAll(seed);
  RETURN_IF_ERROR(problem->RunReference(plan, reference_binary));
  RETURN_IF_ERROR(problem->CheckReference());
  return problem;
}

absl::Status HostProblem::CheckFits(const ProblemPlan& plan) const {
  // In floating point: counts are a user's, and their sum may not fit in 64 bits.
  double needed = 0;
  for (const BufferPlan& buffer : plan.buffers) {
    RETURN_IF_ERROR(CheckCount(buffer));
    const double count = static_cast<double>(buffer.count);
    const double bytes = count * static_cast<double>(SizeInBytes(buffer.dtype));
    needed += bytes * (buffer.role == Role::kInOut ? 2 : 1);
    if (!IsChecked(buffer.role)) continue;
    const BufferPlan* reference = FindReferenceArg(plan, buffer.name);
    needed += count * (reference == nullptr
                           ? 8.0
                           : static_cast<double>(SizeInBytes(reference->dtype)));
  }
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
    slot.tolerance = ToleranceFor(plan, buffer.dtype);
    const auto index = static_cast<unsigned>(slots_.size());
    ASSIGN_OR_RETURN(slot.memory, GuardedBuffer::Allocate(DataBytes(buffer), index));
    if (buffer.role == Role::kInOut) {
      ASSIGN_OR_RETURN(slot.pristine, GuardedBuffer::Allocate(DataBytes(buffer), index));
    }
    if (IsChecked(buffer.role)) {
      const BufferPlan* reference = FindReferenceArg(plan, buffer.name);
      if (reference == nullptr || reference->count != buffer.count) {
        return absl::InvalidArgumentError(absl::StrCat("the reference does not have buffer '",
                                                       buffer.name, "' with as many elements"));
      }
      const bool widened = buffer.role == Role::kInOut && reference->dtype != buffer.dtype;
      if (widened && reference->dtype != DType::kF32 && reference->dtype != DType::kF64) {
        return absl::InvalidArgumentError(
            absl::StrCat("the reference takes '", buffer.name, "' as ", ToText(reference->dtype),
                         "; of a ", ToText(buffer.dtype), " it can only be f32 or f64"));
      }
      ASSIGN_OR_RETURN(slot.reference_memory,
                       GuardedBuffer::Allocate(DataBytes(*reference), index));
      slot.reference = {reference->dtype, slot.reference_memory.data(), buffer.count};
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
  if (slot.plan.role == Role::kOutput || slot.plan.role == Role::kScratch) {
    return SetBytes(slot.memory.data(), slot.memory.bytes(), PoisonByte(slot.plan.dtype));
  }
  launcher_.ForPieces(slot.plan.count, kGrain, [&](unsigned, int64_t begin, int64_t end) {
    FillElements(slot.plan.dtype, slot.plan.fill, slot.fill_key, begin, end, slot.memory.data());
  });
}

void HostProblem::FillAll(uint64_t seed) {
  for (Slot& slot : slots_) {
    slot.fill_key = FillKey(seed, slot.plan.name.c_str());
    FillSlot(slot);
    if (slot.plan.role == Role::kInput) {
      slot.input_hash = Hash(launcher_, slot.memory.data(), slot.memory.bytes());
    }
    if (slot.plan.role == Role::kOutput) {
      SetBytes(slot.reference.data, slot.reference_memory.bytes(),
               PoisonByte(slot.reference.dtype));
    }
    if (slot.plan.role != Role::kInOut) continue;
    CopyBytes(slot.pristine.data(), slot.memory.data(), slot.memory.bytes());
    slot.pristine.MakeReadOnly();
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
  absl::StatusOr<LoadedKernel> kernel =
      LoadedKernel::Load(binary, plan.reference_launch, plan.reference_args,
                         [this](const BufferPlan& wanted) { return ResolveReference(wanted); });
  if (absl::IsResourceExhausted(kernel.status())) return kernel.status();
  absl::Status status = kernel.status();
  if (status.ok()) status = kernel->Launch(launcher_).status();
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("the reference failed: ", status.message()));
}

// The reference's outputs against themselves: only a NaN differs, and what was never written is
// one.
absl::Status HostProblem::CheckReference() {
  for (Slot& slot : slots_) {
    if (!IsChecked(slot.plan.role)) continue;
    if (std::string damage = slot.reference_memory.DescribeDamage(); !damage.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the reference wrote outside buffer '",
                                                     slot.plan.name, "': ", damage));
    }
    slot.reference_memory.MakeReadOnly();
    const CompareResult compare = Compare(launcher_, slot.reference, slot.reference, {});
    if (compare.nan > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the reference leaves ", compare.nan, " of ", slot.plan.count, " elements of '",
          slot.plan.name, "' unwritten or NaN, the first of them at ", compare.worst_index));
    }
  }
  Verdict verdict;
  JudgeGuards(verdict);
  JudgeInputs(verdict);
  if (verdict.right) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the reference ", verdict.message));
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
  if (wanted.role == Role::kScratch) return ResolveScratch(wanted);
  Slot* slot = Find(wanted.name);
  if (slot == nullptr || slot->plan.dtype != wanted.dtype || slot->plan.count != wanted.count ||
      slot->plan.role != wanted.role) {
    return absl::InvalidArgumentError(absl::StrCat("buffer '", wanted.name, "' of ", wanted.count,
                                                   " ", ToText(wanted.dtype),
                                                   " is not as the problem has it"));
  }
  return slot->memory.data();
}

absl::StatusOr<void*> HostProblem::ResolveScratch(const BufferPlan& wanted) {
  RETURN_IF_ERROR(CheckCount(wanted));
  Slot* slot = Find(wanted.name);
  if (slot != nullptr && slot->plan.role != Role::kScratch) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer '", wanted.name, "' is not scratch in the problem"));
  }
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
  ASSIGN_OR_RETURN(slot->memory, GuardedBuffer::Allocate(
                                     DataBytes(wanted), static_cast<unsigned>(slot - &slots_[0])));
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

Verdict HostProblem::Check() {
  Verdict verdict;
  JudgeGuards(verdict);
  JudgeInputs(verdict);
  JudgeOutputs(verdict);
  if (!verdict.right) Repair();
  return verdict;
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

void HostProblem::JudgeOutputs(Verdict& verdict) const {
  ResultError& error = verdict.error;
  double error_squares = 0;
  double reference_squares = 0;
  double worst_excess = 0;
  for (const Slot& slot : slots_) {
    if (!IsChecked(slot.plan.role) || slot.plan.count == 0) continue;
    const CompareResult compare =
        Compare(launcher_, slot.data(), slot.reference, slot.tolerance);
    error.max_abs = std::max(error.max_abs, compare.max_abs);
    error.max_rel = std::max(error.max_rel, compare.max_rel);
    error.bad_elements += compare.bad;
    error_squares += compare.error_squares;
    reference_squares += compare.reference_squares;
    if (error.worst.empty() || compare.worst_excess > worst_excess) {
      worst_excess = compare.worst_excess;
      error.worst =
          absl::StrFormat("%s[%d]: %.9g, reference %.9g", slot.plan.name, compare.worst_index,
                          compare.worst_value, compare.worst_reference);
    }
    if (compare.bad == 0 || !verdict.right) continue;
    verdict.right = false;
    verdict.message = absl::StrFormat(
        "%s[%d] is %.9g, the reference %.9g (rtol %g, atol %g); %u of %d elements are wrong",
        slot.plan.name, compare.worst_index, compare.worst_value, compare.worst_reference,
        slot.tolerance.rtol, slot.tolerance.atol, compare.bad, slot.plan.count);
    if (compare.nan > 0) {
      absl::StrAppend(&verdict.message, ", ", compare.nan, " of them NaN or never written");
    }
  }
  if (reference_squares > 0) error.relative_l2 = std::sqrt(error_squares / reference_squares);
}

}  // namespace tune::cpu
