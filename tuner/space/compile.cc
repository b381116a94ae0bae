// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "tuner/space/solver.h"
#include "tuner/status_macros.h"

namespace tune {
namespace {

class SpaceCompiler {
 public:
  explicit SpaceCompiler(const SpaceDefinition& definition) : definition_(definition) {}

  absl::StatusOr<CompiledSpace> Compile() && {
    RETURN_IF_ERROR(AddParams());
    RETURN_IF_ERROR(AddLets());
    for (size_t i = 0; i < definition_.constraints.size(); ++i) {
      const SpaceConstraint& constraint = definition_.constraints[i];
      RETURN_IF_ERROR(CheckNames(constraint.expression));
      space_.texts.push_back(constraint.text);
      for (Program& program : Program::CompileConjuncts(constraint.expression, Binder())) {
        AddAtom(std::move(program), i);
      }
    }
    return std::move(space_);
  }

 private:
  absl::Status AddParams() {
    if (definition_.params.size() > kMaxSpaceParams) {
      return absl::InvalidArgumentError(absl::StrCat("a space has at most ", kMaxSpaceParams,
                                                     " params, not ", definition_.params.size()));
    }
    for (const SpaceParam& param : definition_.params) {
      if (param.values.empty() || param.values.size() > kMaxSpaceValues) {
        return absl::InvalidArgumentError(absl::StrCat("param '", param.name, "' has ",
                                                       param.values.size(), " values; 1 to ",
                                                       kMaxSpaceValues, " will do"));
      }
      std::vector<Cell> cells;
      for (const Value& value : param.values) cells.push_back(ToCell(value));
      if (!slots_.emplace(param.name, space_.values.size()).second) {
        return absl::InvalidArgumentError(absl::StrCat("two params are called '", param.name, "'"));
      }
      space_.values.push_back(std::move(cells));
      space_.names.push_back(param.name);
    }
    return absl::OkStatus();
  }

  absl::Status AddLets() {
    for (const SpaceLet& let : definition_.lets) {
      RETURN_IF_ERROR(CheckNames(let.expression));
      Program program = Program::Compile(let.expression, Binder());
      const ParamSet params = ParamsOf(program);
      const uint32_t slot = static_cast<uint32_t>(space_.values.size() + space_.lets.size());
      if (!slots_.emplace(let.name, slot).second) {
        return absl::InvalidArgumentError(absl::StrCat("the name '", let.name, "' is taken twice"));
      }
      space_.lets.push_back({std::move(program), params});
    }
    return absl::OkStatus();
  }

  absl::Status CheckNames(const Expression& expression) const {
    for (const std::string& name : expression.names()) {
      if (slots_.count(name) == 0 && definition_.constants.Find(name) == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("unknown name '", name, "' in '", expression.text(), "'"));
      }
    }
    return absl::OkStatus();
  }

  Program::Binder Binder() const {
    return [this](const std::string& name) -> Program::Binding {
      const auto slot = slots_.find(name);
      if (slot != slots_.end()) return slot->second;
      return *definition_.constants.Find(name);
    };
  }

  ParamSet ParamsOf(const Program& program) const {
    ParamSet params = 0;
    for (uint32_t slot : program.slots()) {
      params |= slot < space_.values.size() ? ParamSet{1} << slot
                                            : space_.lets[slot - space_.values.size()].params;
    }
    return params;
  }

  void CollectLets(const Program& program, std::set<uint32_t>* lets) const {
    for (uint32_t slot : program.slots()) {
      if (slot < space_.values.size()) continue;
      const uint32_t let = slot - static_cast<uint32_t>(space_.values.size());
      if (lets->insert(let).second) CollectLets(space_.lets[let].program, lets);
    }
  }

  void AddAtom(Program program, size_t constraint) {
    std::set<uint32_t> lets;
    CollectLets(program, &lets);
    const ParamSet params = ParamsOf(program);
    space_.atoms.push_back({std::move(program), params, constraint, {lets.begin(), lets.end()}});
  }

  const SpaceDefinition& definition_;
  CompiledSpace space_;
  std::map<std::string, uint32_t> slots_;
};

}  // namespace

absl::StatusOr<CompiledSpace> CompileSpace(const SpaceDefinition& definition) {
  return SpaceCompiler(definition).Compile();
}

}  // namespace tune
