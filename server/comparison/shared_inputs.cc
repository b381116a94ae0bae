// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/shared_inputs.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tuner/device/problem_checks.h"
#include "tuner/device/structured_fill.h"

namespace tune::server {
namespace {

bool HasSameSize(const BufferPlan& one, const BufferPlan& other) {
  return one.dtype == other.dtype && one.count == other.count;
}

// Compares the fills of two buffers of the same size. Plain fills ignore rows and columns.
bool HasSameFill(const BufferPlan& one, const BufferPlan& other) {
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
  if (neither && HasSameFill(from, buffer)) return false;
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

}  // namespace

absl::Status ShareInputs(const ProblemPlan& first, ProblemPlan& problem,
                         std::vector<std::string>& notes) {
  std::vector<std::string> changed;
  for (BufferPlan& buffer : problem.buffers) {
    if (!IsFilled(buffer.role)) continue;
    const BufferPlan* from = FindBuffer(first, buffer.name);
    if (from == nullptr || !IsFilled(from->role)) {
      notes.push_back(absl::StrCat("the first kernel has no input '", buffer.name, "'"));
    } else if (!HasSameSize(*from, buffer)) {
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

}  // namespace tune::server
