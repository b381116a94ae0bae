// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/solver.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/expression/ast.h"
#include "tuner/space/param_order.h"

namespace tune {
namespace {

// Every digit of a param that no constraint names.
Diagram Free(size_t param, size_t radix) {
  Diagram::Level level = {.param = static_cast<uint32_t>(param)};
  level.first_edge = {0, static_cast<uint32_t>(radix)};
  level.digits.resize(radix);
  std::iota(level.digits.begin(), level.digits.end(), uint16_t{0});
  level.children.assign(radix, 0);
  return *Diagram::Create({std::move(level)});
}

// The atom to leave out where a diagram became too wide: of those carried there, the one of most
// params.
size_t WidestAtom(const std::vector<Atom>& atoms, ParamSet component,
                  const std::vector<size_t>& order, size_t level) {
  ParamSet assigned = 0;
  for (size_t i = 0; i <= level; ++i) assigned |= ParamSet{1} << order[i];
  auto weight = [&](const Atom& atom) {
    if ((atom.params & component) == 0) return 0;
    const bool is_open = (atom.params & ~assigned) != 0;
    return std::popcount(atom.params) + (is_open ? 100 : 0);
  };
  const auto widest =
      std::max_element(atoms.begin(), atoms.end(),
                       [&](const Atom& a, const Atom& b) { return weight(a) < weight(b); });
  return static_cast<size_t>(widest - atoms.begin());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Solver>> Solver::Create(const SpaceDefinition& definition) {
  RETURN_IF_ERROR(CheckDefinition(definition));
  return std::unique_ptr<Solver>(new Solver(definition));
}

Solver::Solver(const SpaceDefinition& definition) : definition_(definition), terms_(definition) {
  for (const SpaceParam& param : definition.params) radices_.push_back(param.values.size());
  AddAtoms();
}

void Solver::AddAtoms() {
  size_t conjunct_count = 0;
  std::set<std::pair<TermId, size_t>> known;  // with the constraint
  for (size_t i = 0; i < definition_.constraints.size(); ++i) {
    for (const NodePointer& conjunct : Conjuncts(definition_.constraints[i].expression)) {
      Atom atom = {.program = conjunct_count++, .constraint = i};
      const std::optional<TermId> term = terms_.Truth(*conjunct);
      if (term.has_value()) {
        atom.term = *term;
        atom.params = terms_.graph().terms[*term].params;
      } else {
        atom.is_opaque = true;
        atom.params = compiled().conjuncts[atom.program].params;
      }
      if (atom.is_opaque || known.emplace(atom.term, i).second) atoms_.push_back(atom);
    }
  }
}

const CompiledSpace& Solver::compiled() {
  if (!compiled_.has_value()) {
    compiled_ = CompileSpace(definition_);
    runner_ = std::make_unique<ProgramRunner>(*compiled_);
  }
  return *compiled_;
}

bool Solver::ConstantsHold(const std::vector<Atom>& atoms, absl::Status* failure) {
  for (const Atom& atom : atoms) {
    if (atom.params != 0) continue;
    if (!atom.is_opaque) {
      if (terms_.graph().terms[atom.term].word == 0) return false;
      continue;
    }
    const Verdict verdict = runner_->Decide(atom.program, {});
    if (verdict == Verdict::kFalse) return false;
    if (verdict == Verdict::kFailed) failure->Update(runner_->Failure(atom.program));
  }
  return true;
}

std::vector<ParamSet> Solver::Connected(const std::vector<Atom>& atoms) const {
  std::vector<ParamSet> sets;
  for (size_t param = 0; param < radices_.size(); ++param) sets.push_back(ParamSet{1} << param);
  for (const Atom& atom : atoms) {
    if (std::popcount(atom.params) < 2) continue;
    ParamSet merged = 0;
    auto touches = [&](ParamSet set) { return (set & atom.params) != 0; };
    for (ParamSet set : sets) merged |= touches(set) ? set : 0;
    sets.erase(std::remove_if(sets.begin(), sets.end(), touches), sets.end());
    sets.push_back(merged);
  }
  std::sort(sets.begin(), sets.end(),
            [](ParamSet a, ParamSet b) { return std::countr_zero(a) < std::countr_zero(b); });
  return sets;
}

DiagramResult Solver::Build(ParamSet component, const std::vector<Atom>& atoms,
                            const DiagramLimits& limits, std::vector<size_t>* order) {
  DiagramInput input = {
      .graph = &terms_.graph(), .param_words = &terms_.param_words(), .radices = &radices_};
  std::vector<size_t> params;
  for (size_t param = 0; param < radices_.size(); ++param) {
    if (Has(component, param)) params.push_back(param);
  }
  for (const Atom& atom : atoms) {
    if ((atom.params & component) != 0) input.atoms.push_back(atom);
  }
  if (input.atoms.empty()) {
    DiagramResult result;
    result.diagram = Free(params[0], radices_[params[0]]);
    return result;
  }
  input.order = ChooseOrder(terms_.graph(), input.atoms, terms_.param_words(), radices_, params);
  *order = input.order;
  return BuildDiagram(input, limits, [this](size_t program, const std::vector<uint16_t>& digits) {
    return runner_->Decide(program, digits);
  });
}

absl::Status Solver::FailureAt(const std::vector<Atom>& atoms, ParamSet component,
                               const std::vector<uint16_t>& digits) {
  compiled();
  for (const Atom& atom : atoms) {
    if (atom.params == 0 || (atom.params & ~component) != 0) continue;
    if (runner_->Decide(atom.program, digits) == Verdict::kFailed) {
      return runner_->Failure(atom.program);
    }
  }
  return absl::InternalError("a constraint failed only once");
}

absl::StatusOr<Solution> Solver::Solve(const SolveLimits& limits,
                                       absl::FunctionRef<bool(size_t constraint)> uses) {
  std::vector<Atom> atoms;
  for (const Atom& atom : atoms_) {
    if (uses(atom.constraint)) atoms.push_back(atom);
  }
  std::vector<size_t> deferred;
  while (true) {
    absl::Status failure;
    std::optional<size_t> widest;
    ASSIGN_OR_RETURN(Solution solution, SolveOnce(limits.diagram, atoms, &failure, &widest));
    if (widest.has_value()) {
      if (deferred.size() >= static_cast<size_t>(limits.deferrals)) {
        return absl::ResourceExhaustedError(
            "finding the valid configs takes too many steps or too much memory: give the params "
            "fewer values, or add constraints over fewer params each");
      }
      deferred.push_back(atoms[*widest].program);
      atoms.erase(atoms.begin() + static_cast<std::ptrdiff_t>(*widest));
      continue;
    }
    if (solution.is_empty()) return solution;
    if (!failure.ok() && deferred.empty()) return failure;
    solution.deferred = std::move(deferred);
    if (failure.ok()) return solution;
    // A conjunct that was left out may reject the assignment that failed. So all atoms that may
    // fail are checked config by config as well.
    for (const Atom& atom : atoms) {
      const bool may_fail = atom.is_opaque || terms_.graph().terms[atom.term].may_fail;
      if (may_fail) solution.deferred.push_back(atom.program);
    }
    return solution;
  }
}

absl::StatusOr<Solution> Solver::SolveOnce(const DiagramLimits& limits,
                                           const std::vector<Atom>& atoms, absl::Status* failure,
                                           std::optional<size_t>* widest) {
  Solution nothing;
  nothing.components.push_back(*Diagram::Create({Diagram::Level{.first_edge = {0, 0}}}));
  if (!ConstantsHold(atoms, failure)) return nothing;
  Solution solution;
  DiagramLimits left = limits;
  for (ParamSet set : Connected(atoms)) {
    std::vector<size_t> order;
    DiagramResult result = Build(set, atoms, left, &order);
    work_ += result.work;
    left.work -= std::min(left.work, result.work);
    if (result.kind == DiagramResult::Kind::kStopped) {
      return absl::CancelledError("cancelled while the valid configs were being found");
    }
    if (result.kind == DiagramResult::Kind::kTooMany) {
      return absl::ResourceExhaustedError(
          "there are more than 2^62 valid configs: give the params fewer values");
    }
    if (result.kind == DiagramResult::Kind::kTooWide) {
      // The loop goes on. Another component may be empty, and then this one does not matter.
      if (!widest->has_value()) *widest = WidestAtom(atoms, set, order, result.level);
      continue;
    }
    if (result.diagram->count() == 0) {
      widest->reset();
      return nothing;
    }
    // This is an error only if no other component rejects everything.
    if (result.failed.has_value()) failure->Update(FailureAt(atoms, set, *result.failed));
    left.bytes -= std::min<uint64_t>(left.bytes, result.diagram->bytes());
    left.edges -= std::min<uint64_t>(left.edges, result.diagram->edge_count());
    solution.components.push_back(*std::move(result.diagram));
  }
  return solution;
}

}  // namespace tune
