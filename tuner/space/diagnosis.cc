// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/diagnosis.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace tune {
namespace {

constexpr DiagramCost kLimits = {.work = 20'000'000, .bytes = 16 << 20, .edges = 1 << 20};
// With more constraints it takes too long to try without each.
constexpr size_t kMaxTried = 64;
// A message with more names than this is no help.
constexpr size_t kMaxNamed = 4;

class Diagnosis {
 public:
  Diagnosis(Solver* solver, const SpaceDefinition& definition, const std::function<bool()>& stopped)
      : solver_(*solver),
        definition_(definition),
        limits_{.diagram = {kLimits, stopped}},
        used_(definition.constraints.size(), true) {}

  absl::Status Run() && {
    const size_t last = LastNeeded();
    const std::string& text = definition_.constraints[last].text;
    const std::string first_words = absl::StrCat("no config is valid: constraint ", text);
    const std::vector<size_t> conflict = Conflict(last);
    if (limits_.diagram.ShouldStop()) {
      return absl::CancelledError("cancelled: no config is valid, and why was being found out");
    }
    if (conflict.size() == 1) {
      return absl::InvalidArgumentError(absl::StrCat(first_words, " rejects every one"));
    }
    if (conflict.empty() || conflict.size() > kMaxNamed) {
      return absl::InvalidArgumentError(
          absl::StrCat(first_words, " rejects every one that the constraints before it allow"));
    }
    std::string names;
    for (size_t i = 0; i < conflict.size(); ++i) {
      absl::StrAppend(&names,
                      i == 0                     ? ""
                      : i + 1 == conflict.size() ? " and "
                                                 : ", ",
                      definition_.constraints[conflict[i]].text);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("no config is valid: constraints ", names, " reject every one together"));
  }

 private:
  bool IsEmpty() {
    if (limits_.diagram.ShouldStop()) return false;
    const absl::StatusOr<Solution> solution =
        solver_.Solve(limits_, [this](size_t constraint) { return used_[constraint]; });
    return solution.ok() && solution->is_empty();
  }

  // The first constraint with which no config is left. It can be searched by halves, since fewer
  // constraints never leave fewer configs.
  size_t LastNeeded() {
    size_t some_left = 0;
    size_t none_left = used_.size();
    while (none_left - some_left > 1) {
      const size_t middle = some_left + (none_left - some_left) / 2;
      for (size_t i = 0; i < used_.size(); ++i) used_[i] = i < middle;
      (IsEmpty() ? none_left : some_left) = middle;
    }
    for (size_t i = 0; i < used_.size(); ++i) used_[i] = i < none_left;
    return none_left - 1;
  }

  // A set of constraints up to `last` that leaves no config, while without any one of them some are
  // left. Empty if that takes too long to find out.
  std::vector<size_t> Conflict(size_t last) {
    if (last > kMaxTried) return {};
    for (size_t i = 0; i < last; ++i) {
      used_[i] = false;
      if (!IsEmpty()) used_[i] = true;
    }
    std::vector<size_t> conflict;
    for (size_t i = 0; i <= last; ++i) {
      if (used_[i]) conflict.push_back(i);
    }
    return conflict;
  }

  Solver& solver_;
  const SpaceDefinition& definition_;
  SolveLimits limits_;
  std::vector<bool> used_;
};

}  // namespace

absl::Status NothingLeft(Solver* solver, const SpaceDefinition& definition,
                         const std::function<bool()>& stopped) {
  return Diagnosis(solver, definition, stopped).Run();
}

}  // namespace tune
