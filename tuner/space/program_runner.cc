// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/program_runner.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune {
namespace {

class SpaceCompiler {
 public:
  explicit SpaceCompiler(const SpaceDefinition& definition) : definition_(definition) {}

  CompiledSpace Compile() && {
    for (const SpaceParam& param : definition_.params) {
      std::vector<Cell> cells;
      for (const Value& value : param.values) cells.push_back(ToCell(value));
      slots_.emplace(param.name, space_.values.size());
      space_.values.push_back(std::move(cells));
      space_.names.push_back(param.name);
    }
    for (const SpaceLet& let : definition_.lets) {
      Bytecode program = Bytecode::Compile(let.expression, Binder());
      const ParamSet params = ParamsOf(program);
      slots_.emplace(let.name, space_.values.size() + space_.lets.size());
      space_.lets.push_back({std::move(program), params});
    }
    for (size_t i = 0; i < definition_.constraints.size(); ++i) {
      const SpaceConstraint& constraint = definition_.constraints[i];
      space_.texts.push_back(constraint.text);
      for (Bytecode& program : Bytecode::CompileConjuncts(constraint.expression, Binder())) {
        AddConjunct(std::move(program), i);
      }
    }
    return std::move(space_);
  }

 private:
  Bytecode::Binder Binder() const {
    return [this](const std::string& name) -> Bytecode::Binding {
      const auto slot = slots_.find(name);
      if (slot != slots_.end()) return slot->second;
      return *definition_.constants.Find(name);
    };
  }

  ParamSet ParamsOf(const Bytecode& program) const {
    ParamSet params = 0;
    for (uint32_t slot : program.slots()) {
      params |= slot < space_.values.size() ? ParamSet{1} << slot
                                            : space_.lets[slot - space_.values.size()].params;
    }
    return params;
  }

  void CollectLets(const Bytecode& program, std::set<uint32_t>* lets) const {
    for (uint32_t slot : program.slots()) {
      if (slot < space_.values.size()) continue;
      const uint32_t let = slot - static_cast<uint32_t>(space_.values.size());
      if (lets->insert(let).second) CollectLets(space_.lets[let].program, lets);
    }
  }

  void AddConjunct(Bytecode program, size_t constraint) {
    std::set<uint32_t> lets;
    CollectLets(program, &lets);
    const ParamSet params = ParamsOf(program);
    space_.conjuncts.push_back(
        {std::move(program), params, constraint, {lets.begin(), lets.end()}});
  }

  const SpaceDefinition& definition_;
  CompiledSpace space_;
  std::map<std::string, uint32_t> slots_;
};

absl::Status CheckNames(const Expression& expression, const std::set<std::string>& names,
                        const Scope& constants) {
  for (const std::string& name : expression.names()) {
    if (names.count(name) == 0 && constants.Find(name) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown name '", name, "' in '", expression.text(), "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDefinition(const SpaceDefinition& definition) {
  if (definition.params.size() > kMaxSpaceParams) {
    return absl::InvalidArgumentError(absl::StrCat("a space has at most ", kMaxSpaceParams,
                                                   " params, not ", definition.params.size()));
  }
  std::set<std::string> names;
  for (const SpaceParam& param : definition.params) {
    if (param.values.empty() || param.values.size() > kMaxSpaceValues) {
      return absl::InvalidArgumentError(absl::StrCat("param '", param.name, "' has ",
                                                     param.values.size(), " values; 1 to ",
                                                     kMaxSpaceValues, " will do"));
    }
    if (!names.insert(param.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("two params are called '", param.name, "'"));
    }
  }
  for (const SpaceLet& let : definition.lets) {
    RETURN_IF_ERROR(CheckNames(let.expression, names, definition.constants));
    if (!names.insert(let.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("the name '", let.name, "' is taken twice"));
    }
  }
  for (const SpaceConstraint& constraint : definition.constraints) {
    RETURN_IF_ERROR(CheckNames(constraint.expression, names, definition.constants));
  }
  return absl::OkStatus();
}

CompiledSpace CompileSpace(const SpaceDefinition& definition) {
  return SpaceCompiler(definition).Compile();
}

ProgramRunner::ProgramRunner(const CompiledSpace& space)
    : space_(space), slots_(space.values.size() + space.lets.size()) {}

Verdict ProgramRunner::Decide(size_t conjunct, absl::Span<const uint16_t> digits) {
  const CompiledSpace::Conjunct& compiled = space_.conjuncts[conjunct];
  ParamSet params = compiled.params;
  for (size_t param = 0; params != 0; ++param, params >>= 1) {
    if ((params & 1) != 0) slots_[param] = space_.values[param][digits[param]];
  }
  for (uint32_t let : compiled.lets) SetLet(let);
  Cell result;
  machine_.arena.Clear();
  if (!compiled.program.Run(slots_.data(), &machine_, &result)) return Verdict::kFailed;
  return IsTrue(result) ? Verdict::kTrue : Verdict::kFalse;
}

absl::Status ProgramRunner::Failure(size_t conjunct) const {
  const CompiledSpace::Conjunct& compiled = space_.conjuncts[conjunct];
  std::string config;
  for (size_t param = 0; param < space_.values.size(); ++param) {
    if (!Has(compiled.params, param)) continue;
    absl::StrAppend(&config, config.empty() ? " for " : " ", space_.names[param], "=",
                    ToText(ToValue(slots_[param])));
  }
  return absl::InvalidArgumentError(absl::StrCat("constraint ", space_.texts[compiled.constraint],
                                                 " cannot be evaluated", config, ": ",
                                                 machine_.error));
}

void ProgramRunner::SetLet(uint32_t let) {
  Cell& cell = slots_[space_.values.size() + let];
  machine_.arena.Clear();
  if (!space_.lets[let].program.Run(slots_.data(), &machine_, &cell)) {
    cell = Cell::Failed(Intern(machine_.error));
  } else if (cell.kind == Cell::Kind::kText) {
    cell = Cell::Text(Intern(*cell.text));
  } else if (cell.kind == Cell::Kind::kList) {
    cell = Cell::Failed(Intern("a let is a single value, not a list"));
  }
}

}  // namespace tune
