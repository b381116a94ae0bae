// SPDX-License-Identifier: Apache-2.0
// Depth-first search over the params of one component at a time. The order of params is chosen so
// that constraints complete early; a verdict over few values is remembered in a table.
#include "tuner/space/solver.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "tuner/status_macros.h"

namespace tune {
namespace {

// Verdicts over at most this many combinations of values are remembered, a byte each.
constexpr uint64_t kMaxTableBytes = 1 << 20;
constexpr uint64_t kMaxTablesBytes = 64 << 20;

enum class Verdict : uint8_t { kUnknown, kTrue, kFalse, kFailed };

// The atoms over one set of params, decided together once the last of them has a value.
struct Check {
  ParamSet params = 0;
  std::vector<const CompiledSpace::Atom*> atoms;
  std::vector<std::pair<size_t, uint64_t>> strides;  // depth in the search, stride in the table
  std::vector<Verdict> table;                        // empty: too many combinations
  uint64_t cost = 0;                                 // of deciding without the table
};

bool Has(ParamSet set, size_t param) { return (set >> param & 1) != 0; }

// Evaluates atoms for the values in its slots. Lets are evaluated when first needed and kept until
// a param they depend on changes.
class Evaluator {
 public:
  explicit Evaluator(const CompiledSpace& space)
      : space_(space),
        slots_(space.values.size() + space.lets.size()),
        let_known_(space.lets.size(), false) {}

  void SetParam(size_t param, uint16_t digit) { slots_[param] = space_.values[param][digit]; }
  void ForgetLet(uint32_t let) { let_known_[let] = false; }

  Verdict Decide(const std::vector<const CompiledSpace::Atom*>& atoms) {
    Verdict verdict = Verdict::kTrue;
    for (const CompiledSpace::Atom* atom : atoms) {
      const Verdict one = Decide(*atom);
      if (one == Verdict::kFalse) return one;
      if (one == Verdict::kFailed) verdict = one;
    }
    return verdict;
  }

  Verdict Decide(const CompiledSpace::Atom& atom) {
    for (uint32_t let : atom.lets) {
      if (!let_known_[let]) SetLet(let);
    }
    Cell result;
    machine_.arena.Clear();
    if (!atom.program.Run(slots_.data(), &machine_, &result)) return Verdict::kFailed;
    return IsTrue(result) ? Verdict::kTrue : Verdict::kFalse;
  }

  // Why the last Decide of one atom failed, and for which values.
  absl::Status Failure(const CompiledSpace::Atom& atom) const {
    std::string config;
    for (size_t param = 0; param < space_.values.size(); ++param) {
      if (!Has(atom.params, param)) continue;
      absl::StrAppend(&config, config.empty() ? " for " : " ", space_.names[param], "=",
                      ToText(ToValue(slots_[param])));
    }
    return absl::InvalidArgumentError(absl::StrCat("constraint ", space_.texts[atom.constraint],
                                                   " cannot be evaluated", config, ": ",
                                                   machine_.error));
  }

 private:
  void SetLet(uint32_t let) {
    Cell& cell = slots_[space_.values.size() + let];
    let_known_[let] = true;
    machine_.arena.Clear();
    if (!space_.lets[let].program.Run(slots_.data(), &machine_, &cell)) {
      cell = Cell::Failed(Intern(machine_.error));
    } else if (cell.kind == Cell::Kind::kText) {
      cell = Cell::Text(Intern(*cell.text));
    } else if (cell.kind == Cell::Kind::kList) {
      cell = Cell::Failed(Intern("a let is a single value, not a list"));
    }
  }
  const std::string* Intern(const std::string& text) { return &*texts_.insert(text).first; }

  const CompiledSpace& space_;
  std::vector<Cell> slots_;
  std::vector<bool> let_known_;
  std::unordered_set<std::string> texts_;
  Machine machine_;
};

// Atoms over the same params become one check.
std::vector<Check> MakeChecks(const CompiledSpace& space, size_t constraint_count) {
  std::vector<Check> checks;
  for (const CompiledSpace::Atom& atom : space.atoms) {
    if (atom.constraint >= constraint_count) continue;
    auto same = [&](const Check& check) { return check.params == atom.params; };
    auto it = std::find_if(checks.begin(), checks.end(), same);
    if (it == checks.end()) it = checks.insert(checks.end(), Check{atom.params});
    it->atoms.push_back(&atom);
    it->cost += atom.program.cost();
    for (uint32_t let : atom.lets) it->cost += space.lets[let].program.cost();
  }
  return checks;
}

double Combinations(const CompiledSpace& space, ParamSet params) {
  double product = 1;
  for (size_t param = 0; param < space.values.size(); ++param) {
    if (Has(params, param)) product *= static_cast<double>(space.values[param].size());
  }
  return product;
}

// Sets of params connected by checks, those with the fewest combinations first: if one has no
// assignment, the large ones need not be searched.
std::vector<ParamSet> Connected(const CompiledSpace& space, const std::vector<Check>& checks) {
  std::vector<ParamSet> sets;
  for (size_t param = 0; param < space.values.size(); ++param) {
    sets.push_back(ParamSet{1} << param);
  }
  for (const Check& check : checks) {
    ParamSet merged = check.params;
    auto touches = [&](ParamSet set) { return (set & check.params) != 0; };
    for (ParamSet set : sets) merged |= touches(set) ? set : 0;
    sets.erase(std::remove_if(sets.begin(), sets.end(), touches), sets.end());
    if (merged != 0) sets.push_back(merged);
  }
  std::stable_sort(sets.begin(), sets.end(), [&](ParamSet a, ParamSet b) {
    const double cost_a = Combinations(space, a);
    const double cost_b = Combinations(space, b);
    return cost_a != cost_b ? cost_a < cost_b : a < b;
  });
  return sets;
}

// Completes one check after the other, each time the one that needs the fewest new combinations.
std::vector<size_t> SearchOrder(const CompiledSpace& space, ParamSet component,
                                const std::vector<Check>& checks) {
  std::vector<size_t> order;
  ParamSet assigned = 0;
  auto assign = [&](ParamSet params) {
    std::vector<size_t> added;
    for (size_t param = 0; param < space.values.size(); ++param) {
      if (Has(params & ~assigned, param)) added.push_back(param);
    }
    std::stable_sort(added.begin(), added.end(), [&](size_t a, size_t b) {
      return space.values[a].size() < space.values[b].size();
    });
    order.insert(order.end(), added.begin(), added.end());
    assigned |= params;
  };
  while (true) {
    const Check* next = nullptr;
    double next_cost = 0;
    for (const Check& check : checks) {
      const bool open = (check.params & ~assigned) != 0 && (check.params & component) != 0;
      if (!open || std::popcount(check.params) < 2) continue;
      const double cost = Combinations(space, check.params & ~assigned);
      if (next != nullptr && cost >= next_cost) continue;
      next = &check;
      next_cost = cost;
    }
    if (next == nullptr) break;
    assign(next->params);
  }
  assign(component);
  return order;
}

class ComponentSearch {
 public:
  ComponentSearch(const CompiledSpace& space, std::vector<size_t> order,
                  const std::vector<Check>& checks, const SolveLimits& limits, uint64_t* steps,
                  uint64_t* table_bytes)
      : space_(space), limits_(limits), steps_(steps), evaluator_(space) {
    component_.params = std::move(order);
    digits_.resize(component_.params.size());
    checks_at_.resize(component_.params.size());
    lets_at_.resize(component_.params.size());
    for (const Check& check : checks) Place(check, table_bytes);
    for (uint32_t let = 0; let < space.lets.size(); ++let) {
      for (size_t depth = 0; depth < component_.params.size(); ++depth) {
        if (Has(space.lets[let].params, component_.params[depth])) lets_at_[depth].push_back(let);
      }
    }
  }

  absl::StatusOr<Component> Run() && {
    Descend(0, false);
    RETURN_IF_ERROR(status_);
    return std::move(component_);
  }

 private:
  // Puts a check where the last of its params gets its value.
  void Place(Check check, uint64_t* table_bytes) {
    ParamSet covered = 0;
    uint64_t stride = 1;
    for (size_t depth = 0; depth < component_.params.size(); ++depth) {
      const size_t param = component_.params[depth];
      if (!Has(check.params, param)) continue;
      covered |= ParamSet{1} << param;
      check.strides.emplace_back(depth, stride);
      stride = std::min(stride * space_.values[param].size(), kMaxTableBytes + 1);
    }
    if (covered == 0) return;
    if (stride <= kMaxTableBytes && *table_bytes + stride <= kMaxTablesBytes) {
      *table_bytes += stride;
      check.table.assign(stride, Verdict::kUnknown);
    }
    checks_at_[check.strides.back().first].push_back(std::move(check));
  }

  Verdict Decide(Check& check) {
    if (check.table.empty()) return Evaluate(check);
    uint64_t index = 0;
    for (const auto& [depth, stride] : check.strides) index += digits_[depth] * stride;
    Verdict& known = check.table[index];
    if (known == Verdict::kUnknown) known = Evaluate(check);
    return known;
  }
  Verdict Evaluate(const Check& check) {
    *steps_ += check.cost;
    return evaluator_.Decide(check.atoms);
  }

  // `failed`: some check could not be evaluated higher up. That matters only if nothing below
  // rejects the config. Returns false when the search is over.
  bool Descend(size_t depth, bool failed) {
    const size_t param = component_.params[depth];
    const size_t value_count = space_.values[param].size();
    for (size_t digit = 0; digit < value_count; ++digit) {
      if (++*steps_ > limits_.steps) {
        status_ = absl::ResourceExhaustedError(
            absl::StrCat("finding the valid configs takes more than ", limits_.steps,
                         " steps: give the params fewer values, or add constraints over fewer "
                         "params each"));
        return false;
      }
      digits_[depth] = static_cast<uint16_t>(digit);
      evaluator_.SetParam(param, digits_[depth]);
      for (uint32_t let : lets_at_[depth]) evaluator_.ForgetLet(let);
      bool failed_here = failed;
      bool allowed = true;
      for (Check& check : checks_at_[depth]) {
        const Verdict verdict = Decide(check);
        failed_here |= verdict == Verdict::kFailed;
        if (verdict == Verdict::kFalse) {
          allowed = false;
          break;
        }
      }
      if (!allowed) continue;
      const bool last = depth + 1 == component_.params.size();
      if (last ? !AddRow(failed_here) : !Descend(depth + 1, failed_here)) return false;
    }
    return true;
  }

  bool AddRow(bool failed) {
    if (failed) {
      status_ = FindFailure();
      return false;
    }
    component_.rows.insert(component_.rows.end(), digits_.begin(), digits_.end());
    ++component_.count;
    if (component_.count > limits_.rows) {
      status_ = absl::ResourceExhaustedError(absl::StrCat("there are more than ", limits_.rows,
                                                          " valid configs: add constraints or ",
                                                          "give the params fewer values"));
      return false;
    }
    return !limits_.first_only;
  }

  absl::Status FindFailure() {
    for (const std::vector<Check>& checks : checks_at_) {
      for (const Check& check : checks) {
        for (const CompiledSpace::Atom* atom : check.atoms) {
          if (evaluator_.Decide(*atom) == Verdict::kFailed) return evaluator_.Failure(*atom);
        }
      }
    }
    return absl::InternalError("a constraint failed only once");
  }

  const CompiledSpace& space_;
  const SolveLimits limits_;
  uint64_t* const steps_;
  Evaluator evaluator_;
  Component component_;
  std::vector<uint16_t> digits_;               // by depth
  std::vector<std::vector<Check>> checks_at_;  // by depth
  std::vector<std::vector<uint32_t>> lets_at_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<Component>> Solve(const CompiledSpace& space, size_t constraint_count,
                                             const SolveLimits& limits) {
  std::vector<Component> components;
  std::vector<Check> checks = MakeChecks(space, constraint_count);
  absl::Status failure;
  const auto constant = std::find_if(checks.begin(), checks.end(),
                                     [](const Check& check) { return check.params == 0; });
  if (constant != checks.end()) {
    Evaluator evaluator(space);
    for (const CompiledSpace::Atom* atom : constant->atoms) {
      const Verdict verdict = evaluator.Decide(*atom);
      if (verdict == Verdict::kFalse) return std::vector<Component>(1);
      if (verdict == Verdict::kFailed) failure.Update(evaluator.Failure(*atom));
    }
    checks.erase(constant);
  }
  uint64_t steps = 0;
  uint64_t table_bytes = 0;
  for (ParamSet set : Connected(space, checks)) {
    ComponentSearch search(space, SearchOrder(space, set, checks), checks, limits, &steps,
                           &table_bytes);
    absl::StatusOr<Component> component = std::move(search).Run();
    if (absl::IsInvalidArgument(component.status())) {
      // An error only if no other component rejects everything.
      failure.Update(component.status());
      continue;
    }
    RETURN_IF_ERROR(component.status());
    components.push_back(*std::move(component));
    if (components.back().count == 0) return std::vector<Component>(1);
  }
  RETURN_IF_ERROR(failure);
  return components;
}

}  // namespace tune
