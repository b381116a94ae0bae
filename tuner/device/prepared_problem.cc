// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/prepared_problem.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/checker.h"
#include "tuner/device/fill.h"
#include "tuner/device/structured_fill.h"

namespace tune {
namespace {

using Part = ProblemDevice::Part;

bool HasInput(const BufferPlan& plan) { return plan.role == Role::kInput && plan.count > 0; }
bool HasOutput(const BufferPlan& plan) { return IsChecked(plan.role) && plan.count > 0; }

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedProblem>> PreparedProblem::Create(
    ProblemDevice& device, const ProblemPlan& plan, const std::string& reference_binary,
    uint64_t seed) {
  std::unique_ptr<PreparedProblem> problem(new PreparedProblem(device));
  ASSIGN_OR_RETURN(const double bytes, BytesNeeded(plan));
  RETURN_IF_ERROR(device.CheckFits(plan.buffers.size(), bytes));
  RETURN_IF_ERROR(problem->Allocate(plan));
  RETURN_IF_ERROR(problem->FillAll(seed));
  if (!plan.reference.steps.empty()) {
    RETURN_IF_ERROR(problem->RunReference(plan, reference_binary));
  }
  RETURN_IF_ERROR(problem->TakeExpected(plan));
  RETURN_IF_ERROR(problem->CheckReference());
  if (HasChecker(plan)) RETURN_IF_ERROR(problem->LoadChecker(plan));
  return problem;
}

PreparedProblem::~PreparedProblem() {
  checker_.reset();
  device_.FreeAll();
}

absl::Status PreparedProblem::Allocate(const ProblemPlan& plan) {
  for (const BufferPlan& buffer : plan.buffers) {
    const size_t index = slots_.size();
    Slot slot = {.plan = buffer, .tolerance = ToleranceFor(plan, buffer)};
    if (const BufferFile* file = FileOf(plan, buffer.name, /*expected=*/false); file != nullptr) {
      slot.file = file->elements;
    }
    ASSIGN_OR_RETURN(slot.data, device_.Allocate(index, Part::kData, buffer));
    if (buffer.role == Role::kInOut) {
      ASSIGN_OR_RETURN(slot.pristine, device_.Allocate(index, Part::kPristine, buffer));
    }
    if (IsChecked(buffer.role) && !plan.reference.steps.empty()) {
      ASSIGN_OR_RETURN(const BufferPlan reference, ReferenceBuffer(plan, buffer));
      ASSIGN_OR_RETURN(slot.reference, device_.Allocate(index, Part::kReference, reference));
    }
    slots_.push_back(std::move(slot));
  }
  return device_.SetGuards();
}

absl::Status PreparedProblem::Poison(const DeviceArray& array) {
  return device_.SetBytes(array, PoisonByte(array.dtype));
}

absl::Status PreparedProblem::FillSlot(const Slot& slot) {
  if (slot.plan.role == Role::kOutput) return Poison(slot.data);
  if (!IsFilled(slot.plan.role) || slot.plan.count == 0) return absl::OkStatus();
  if (!slot.file.empty()) return device_.Upload(slot.data, slot.file);
  return device_.Fill(slot.data, slot.plan.fill, slot.fill_key);
}

absl::Status PreparedProblem::FillAll(uint64_t seed) {
  RETURN_IF_ERROR(device_.BeginCheck());
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.fill_key = FillKey(seed, KeyNameOf(slot.plan).c_str());
    if (IsFilled(slot.plan.role) && slot.file.empty() && IsStructured(slot.plan.fill.kind)) {
      slot.file = StructuredElements(slot.plan, slot.fill_key);
    }
    RETURN_IF_ERROR(FillSlot(slot));
    if (HasInput(slot.plan)) RETURN_IF_ERROR(device_.Hash(i, slot.data));
    if (!HasOutput(slot.plan)) continue;
    const bool in_out = slot.plan.role == Role::kInOut;
    if (in_out) RETURN_IF_ERROR(device_.Copy(slot.pristine, slot.data));
    if (slot.reference.address == 0) continue;  // a file holds what is right, or a checker judges
    if (!in_out) {
      RETURN_IF_ERROR(Poison(slot.reference));
    } else if (slot.reference.dtype == slot.data.dtype) {
      RETURN_IF_ERROR(device_.Copy(slot.reference, slot.data));
    } else {
      // Both kernels start from equal numbers: the reference from the narrow ones, made wide.
      RETURN_IF_ERROR(device_.Widen(slot.reference, slot.data));
    }
  }
  RETURN_IF_ERROR(device_.EndCheck());
  RETURN_IF_ERROR(device_.Wait());
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].input_hash = device_.hash(i);
  return device_.Seal(Part::kPristine);
}

absl::Status PreparedProblem::RunReference(const ProblemPlan& plan, const std::string& binary) {
  const auto at_fault = [](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("the reference ", why...));
  };
  const auto reference = device_.Load(
      WithBinary(plan.reference, binary),
      [this](const BufferPlan& wanted) { return ResolveReference(wanted); }, "the reference");
  if (absl::IsUnavailable(reference.status()) || absl::IsResourceExhausted(reference.status())) {
    return reference.status();
  }
  if (!reference.ok()) return at_fault("failed: ", reference.status().message());
  const absl::StatusOr<std::string> damage = (*reference)->Run();
  if (absl::IsUnavailable(damage.status())) return damage.status();
  if (!damage.ok()) return at_fault("failed: ", damage.status().message());
  return damage->empty() ? absl::OkStatus() : at_fault(*damage);
}

// Expected elements of a file take precedence over the reference's results. The bytes are the
// caller's: CheckReference waits for their upload.
absl::Status PreparedProblem::TakeExpected(const ProblemPlan& plan) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    BufferPlan buffer = slots_[i].plan;
    const BufferFile* file = FileOf(plan, buffer.name, /*expected=*/true);
    if (file == nullptr || !IsChecked(buffer.role)) continue;
    buffer.dtype = file->dtype;
    ASSIGN_OR_RETURN(slots_[i].reference, device_.Allocate(i, Part::kReference, buffer));
    RETURN_IF_ERROR(device_.Upload(slots_[i].reference, file->elements));
  }
  return absl::OkStatus();
}

// Compares the reference's outputs with themselves: only a NaN differs, and an element that was
// never written is one. The reference is held to the same rules as any variant.
absl::Status PreparedProblem::CheckReference() {
  RETURN_IF_ERROR(device_.BeginCheck());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (HasInput(slot.plan)) RETURN_IF_ERROR(device_.Hash(i, slot.data));
    if (slot.reference.address == 0 || slot.plan.count == 0) continue;  // a checker needs none
    RETURN_IF_ERROR(device_.Compare(i, slot.reference, slot.reference, {}));
  }
  RETURN_IF_ERROR(device_.EndCheck());
  RETURN_IF_ERROR(device_.Wait());
  Verdict verdict;
  JudgeGuardsAndInputs(verdict);
  if (!verdict.right) {
    return absl::InvalidArgumentError(absl::StrCat("the reference ", verdict.message));
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    const CompareResult& compare = device_.comparison(i);
    if (compare.nan == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the reference leaves ", compare.nan, " of ", slots_[i].plan.count, " elements of '",
        slots_[i].plan.name, "' unwritten or NaN, the first of them at ", compare.worst_index,
        "; where some are meant to keep what they hold, it is a ROLE_INOUT with a fill"));
  }
  return device_.Seal(Part::kReference);
}

absl::Status PreparedProblem::LoadChecker(const ProblemPlan& plan) {
  const BufferPlan faults = {.name = kFaultsBuffer,
                             .dtype = DType::kU8,
                             .count = sizeof(TuneFaults),
                             .role = Role::kScratch};
  ASSIGN_OR_RETURN(faults_, ResolveScratch(faults, /*slot=*/nullptr));
  auto checker = device_.Load(
      WithBinary(plan.checker, plan.checker_binary),
      [this](const BufferPlan& wanted) { return ResolveForChecker(wanted); }, "the checker");
  if (absl::IsUnavailable(checker.status()) || absl::IsResourceExhausted(checker.status())) {
    return checker.status();
  }
  if (!checker.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the checker: ", checker.status().message()));
  }
  checker_ = *std::move(checker);
  const absl::Status tried = TryChecker();
  const bool at_fault = absl::IsAborted(tried) || absl::IsFailedPrecondition(tried);
  return at_fault ? absl::InvalidArgumentError(tried.message()) : tried;
}

// It must find faults in outputs that were never written, and none in those of the reference.
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
  const bool comparable = std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return !IsChecked(slot.plan.role) ||
           (slot.reference.address != 0 && slot.reference.dtype == slot.plan.dtype);
  });
  if (!comparable) return absl::OkStatus();
  for (const Slot& slot : slots_) {
    if (HasOutput(slot.plan)) RETURN_IF_ERROR(device_.Copy(slot.data, slot.reference));
  }
  Verdict right;
  RETURN_IF_ERROR(RunChecker(right));
  if (right.right) return absl::OkStatus();
  return fails("is wrong, or the reference is: of the reference's outputs, ", right.message);
}

// Waits for the device.
absl::Status PreparedProblem::RunChecker(Verdict& verdict) {
  RETURN_IF_ERROR(device_.SetBytes(faults_, 0));
  const absl::StatusOr<std::string> damage = checker_->Run();
  if (!damage.ok()) {
    return absl::Status(damage.status().code(),
                        absl::StrCat("the checker: ", damage.status().message()));
  }
  if (!damage->empty()) return absl::AbortedError(absl::StrCat("the checker ", *damage));
  TuneFaults faults = {};
  RETURN_IF_ERROR(device_.Download(faults_, &faults));
  RETURN_IF_ERROR(EnqueueCheck(/*outputs=*/false));
  RETURN_IF_ERROR(device_.Wait());
  Verdict own;
  JudgeGuardsAndInputs(own);
  if (!own.right) {
    RETURN_IF_ERROR(Repair());
    return absl::AbortedError(absl::StrCat("the checker ", own.message));
  }
  AddFaults(faults, verdict);
  return absl::OkStatus();
}

PreparedProblem::Slot* PreparedProblem::Find(const std::string& name) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.plan.name == name; });
  return found == slots_.end() ? nullptr : &*found;
}

absl::StatusOr<DeviceArray> PreparedProblem::ResolveForChecker(const BufferPlan& wanted) {
  const std::string output = OutputOfReference(wanted);
  const Slot* slot = Find(output.empty() ? wanted.name : output);
  if (slot != nullptr && slot->plan.count == wanted.count) {
    const DeviceArray& array = output.empty() ? slot->data : slot->reference;
    if (array.address != 0 && array.dtype == wanted.dtype) return array;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no '", wanted.name, "' of ", ToText(wanted.dtype)));
}

absl::StatusOr<DeviceArray> PreparedProblem::ResolveReference(const BufferPlan& wanted) {
  const Slot* slot = Find(wanted.name);
  if (slot == nullptr && wanted.role != Role::kScratch) {
    return absl::InvalidArgumentError(
        absl::StrCat("the problem has no buffer '", wanted.name, "'"));
  }
  if (slot != nullptr && IsChecked(slot->plan.role)) return slot->reference;
  return Resolve(wanted);
}

absl::StatusOr<DeviceArray> PreparedProblem::Resolve(const BufferPlan& wanted) {
  Slot* slot = Find(wanted.name);
  RETURN_IF_ERROR(CheckWanted(wanted, slot == nullptr ? nullptr : &slot->plan));
  if (wanted.role == Role::kScratch) return ResolveScratch(wanted, slot);
  return slot->data;
}

absl::StatusOr<DeviceArray> PreparedProblem::ResolveScratch(const BufferPlan& wanted, Slot* slot) {
  if (slot != nullptr && slot->plan.count == wanted.count && slot->plan.dtype == wanted.dtype) {
    return slot->data;
  }
  // Another size than the last variant's: the guard behind it must move anyway.
  const size_t index = slot == nullptr ? slots_.size() : static_cast<size_t>(slot - slots_.data());
  if (slot != nullptr) slot->plan.count = -1;  // without memory it fits no request
  absl::StatusOr<DeviceArray> data = device_.Allocate(index, Part::kData, wanted);
  RETURN_IF_ERROR(device_.SetGuards());
  if (!data.ok()) return data;
  if (slot == nullptr) slot = &slots_.emplace_back();
  slot->plan = wanted;
  slot->data = *data;
  return data;
}

absl::Status PreparedProblem::RestoreInOuts() {
  for (const Slot& slot : slots_) {
    if (slot.plan.role != Role::kInOut || slot.plan.count == 0) continue;
    RETURN_IF_ERROR(device_.Copy(slot.data, slot.pristine));
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::PoisonOutputs() {
  for (const Slot& slot : slots_) {
    if (slot.plan.role == Role::kOutput) RETURN_IF_ERROR(Poison(slot.data));
  }
  return absl::OkStatus();
}

absl::Status PreparedProblem::EnqueueCheck(bool outputs) {
  RETURN_IF_ERROR(device_.BeginCheck());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (outputs && HasOutput(slot.plan)) {
      RETURN_IF_ERROR(device_.Compare(i, slot.data, slot.reference, slot.tolerance));
    } else if (HasInput(slot.plan)) {
      RETURN_IF_ERROR(device_.Hash(i, slot.data));
    }
  }
  return device_.EndCheck();
}

absl::StatusOr<Verdict> PreparedProblem::Check() {
  RETURN_IF_ERROR(EnqueueCheck());
  RETURN_IF_ERROR(device_.Wait());
  return ReadVerdict();
}

absl::StatusOr<Verdict> PreparedProblem::ReadVerdict() {
  Verdict verdict;
  JudgeGuardsAndInputs(verdict);
  if (checker_ == nullptr) {
    JudgeOutputs(verdict);
  } else {
    if (!verdict.right) RETURN_IF_ERROR(Repair());  // the checker sees the inputs as they were
    RETURN_IF_ERROR(RunChecker(verdict));
  }
  if (verdict.right) return verdict;
  RETURN_IF_ERROR(Repair());
  ASSIGN_OR_RETURN(const bool intact, device_.SealsHold());
  if (intact) return verdict;
  verdict.harness_damaged = true;
  verdict.message = "the reference's results in device memory were overwritten";
  return verdict;
}

absl::Status PreparedProblem::Repair() {
  RETURN_IF_ERROR(device_.SetGuards());
  for (const Slot& slot : slots_) {
    if (slot.plan.role == Role::kInput) RETURN_IF_ERROR(FillSlot(slot));
  }
  return absl::OkStatus();
}

absl::StatusOr<Verdict> PreparedProblem::Judge(const std::vector<BufferFile>& outputs) {
  RETURN_IF_ERROR(RestoreInOuts());
  RETURN_IF_ERROR(PoisonOutputs());
  for (const BufferFile& output : outputs) {
    const Slot* slot = Find(output.buffer);
    if (slot == nullptr || !IsChecked(slot->plan.role) || slot->plan.dtype != output.dtype ||
        slot->data.bytes() != output.elements.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the problem has no output '", output.buffer,
                                                     "' of ", output.elements.size(), " bytes of ",
                                                     ToText(output.dtype)));
    }
    RETURN_IF_ERROR(device_.Upload(slot->data, output.elements));
  }
  return Check();
}

absl::StatusOr<uint64_t> PreparedProblem::HashOutputs() {
  RETURN_IF_ERROR(device_.BeginCheck());
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (HasOutput(slots_[i].plan)) RETURN_IF_ERROR(device_.Hash(i, slots_[i].data));
  }
  RETURN_IF_ERROR(device_.EndCheck());
  RETURN_IF_ERROR(device_.Wait());
  uint64_t hash = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    hash = hash * 0x9e3779b97f4a7c15u + device_.hash(i);
  }
  return hash;
}

void PreparedProblem::JudgeGuardsAndInputs(Verdict& verdict) const {
  for (size_t i = 0; i < slots_.size() && verdict.right; ++i) {
    const std::string damage = device_.DescribeDamage(i);
    if (damage.empty()) continue;
    verdict.right = false;
    verdict.message = absl::StrCat("wrote outside buffer '", slots_[i].plan.name, "': ", damage);
  }
  for (size_t i = 0; i < slots_.size() && verdict.right; ++i) {
    const Slot& slot = slots_[i];
    if (!HasInput(slot.plan) || device_.hash(i) == slot.input_hash) continue;
    verdict.right = false;
    verdict.message = absl::StrCat("wrote to its input '", slot.plan.name, "'");
  }
}

void PreparedProblem::JudgeOutputs(Verdict& verdict) const {
  OutputJudge judge;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!HasOutput(slot.plan)) continue;
    const bool was_right = verdict.right;
    judge.Add(slot.plan, slot.tolerance, device_.comparison(i), verdict);
    if (!was_right || verdict.right || slot.plan.role != Role::kOutput) continue;
    const std::string unwritten = device_.DescribeUnwritten(slot.plan.name, slot.data);
    if (!unwritten.empty()) verdict.message = absl::StrCat(unwritten, "; ", verdict.message);
  }
}

}  // namespace tune
