// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/column_plan.h"

#include <algorithm>
#include <map>
#include <set>

namespace tune {
namespace {

// A slot may be reached by many paths. With more than these it always matters.
constexpr size_t kMaxPaths = 4;
constexpr size_t kMaxVisits = 4000;

class Planner {
 public:
  Planner(const TermGraph& graph, const std::vector<size_t>& order) : source_(graph) {
    level_of_.assign(kMaxSpaceParams, -1);
    plan_.graph.sets = graph.sets;
    plan_.levels.resize(order.size());
    for (size_t level = 0; level < order.size(); ++level) {
      plan_.levels[level].param = order[level];
      level_of_[order[level]] = static_cast<int>(level);
    }
  }

  ColumnPlan Plan(const std::vector<Atom>& atoms) && {
    for (const Atom& atom : atoms) AddRoot(atom);
    std::vector<std::set<TermId>> needed(plan_.levels.size());
    for (size_t level = 0; level < plan_.levels.size(); ++level) {
      const int depth = static_cast<int>(level);
      for (const Root& root : roots_) {
        if (root.depth == depth && root.program < 0) {
          plan_.levels[level].decided.push_back(root.terms[0]);
          Need(root.terms[0], depth, &needed[level]);
        } else if (root.depth == depth) {
          plan_.levels[level].programs.push_back({static_cast<size_t>(root.program), root.terms});
        }
      }
      if (level + 1 < plan_.levels.size()) AddSlots(depth, &needed[level]);
      plan_.levels[level].terms.assign(needed[level].begin(), needed[level].end());
    }
    return std::move(plan_);
  }

 private:
  struct Root {
    std::vector<TermId> terms;  // the truth term, or the digits that a program reads
    int depth = -1;
    int64_t program = -1;
  };
  using Path = std::vector<Slot::Condition>;

  void AddRoot(const Atom& atom) {
    Root root;
    for (size_t param = 0; param < kMaxSpaceParams; ++param) {
      if (Has(atom.params, param)) root.depth = std::max(root.depth, level_of_[param]);
    }
    if (atom.is_opaque) {
      root.program = static_cast<int64_t>(atom.program);
      plan_.may_fail = true;
      for (size_t param = 0; param < kMaxSpaceParams; ++param) {
        if (!Has(atom.params, param)) continue;
        Term digit = {.op = TermOp::kDigit, .param = static_cast<uint32_t>(param)};
        digit.params = ParamSet{1} << param;
        digit.high = kMaxSpaceValues;
        root.terms.push_back(Add(std::move(digit)));
      }
    } else {
      root.terms.push_back(Lower(atom.term));
      plan_.may_fail |= source_.terms[atom.term].may_fail;
    }
    roots_.push_back(std::move(root));
  }

  int DepthOf(ParamSet params) const {
    int depth = -1;
    for (size_t param = 0; params != 0; ++param, params >>= 1) {
      if ((params & 1) != 0) depth = std::max(depth, level_of_[param]);
    }
    return depth;
  }

  TermId Add(Term term) {
    const int depth = DepthOf(term.params);
    const TermId id = plan_.graph.Intern(std::move(term));
    if (id == depths_.size()) depths_.push_back(depth);
    return id;
  }

  TermId Lower(TermId source) {
    const auto known = lowered_.find(source);
    if (known != lowered_.end()) return known->second;
    Term term = source_.terms[source];
    for (TermId& operand : term.operands) operand = Lower(operand);
    const TermId id = term.op == TermOp::kSum || term.op == TermOp::kProduct ? TakeApart(term)
                                                                             : Add(std::move(term));
    lowered_[source] = id;
    return id;
  }

  // Turns a chain into terms of two operands, in the order in which the operands become known.
  TermId TakeApart(const Term& chain) {
    std::vector<TermId> operands = chain.operands;
    std::stable_sort(operands.begin(), operands.end(),
                     [&](TermId a, TermId b) { return depths_[a] < depths_[b]; });
    TermId result = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      Term two = {.op = chain.op == TermOp::kSum ? TermOp::kAdd : TermOp::kMultiply};
      two.operands = {result, operands[i]};
      two.params = plan_.graph.terms[result].params | plan_.graph.terms[operands[i]].params;
      SetTermBounds(plan_.graph, &two);
      result = Add(std::move(two));
    }
    return result;
  }

  // Adds `id` and the terms of this depth that it is computed from.
  void Need(TermId id, int depth, std::set<TermId>* needed) const {
    const Term& term = plan_.graph.terms[id];
    if (depths_[id] != depth || term.operands.empty()) return;
    if (!needed->insert(id).second) return;
    for (TermId operand : term.operands) Need(operand, depth, needed);
  }

  void AddSlots(int depth, std::set<TermId>* needed) {
    slots_.clear();
    visits_ = 0;
    Path path;
    for (const Root& root : roots_) {
      if (root.depth <= depth) continue;
      for (TermId id : root.terms) Visit(id, depth, &path);
    }
    if (visits_ > kMaxVisits) FindSlotsOnly(depth);
    for (auto& [id, slot] : slots_) {
      Need(id, depth, needed);
      plan_.levels[static_cast<size_t>(depth)].slots.push_back(std::move(slot));
    }
  }

  // Finds the slots without their conditions, for graphs in which many shared terms would make too
  // many paths.
  void FindSlotsOnly(int depth) {
    slots_.clear();
    std::set<TermId> seen;
    std::vector<TermId> open;
    for (const Root& root : roots_) {
      if (root.depth > depth) open.insert(open.end(), root.terms.begin(), root.terms.end());
    }
    while (!open.empty()) {
      const TermId id = open.back();
      open.pop_back();
      const Term& term = plan_.graph.terms[id];
      if (term.op == TermOp::kConstant || !seen.insert(id).second) continue;
      if (depths_[id] <= depth) {
        AddSlot(id, {});
      } else {
        open.insert(open.end(), term.operands.begin(), term.operands.end());
      }
    }
  }

  // Finds the slots below a term that is still open. `path` is what must hold to get here.
  void Visit(TermId id, int depth, Path* path) {
    const Term& term = plan_.graph.terms[id];
    if (term.op == TermOp::kConstant) return;
    if (depths_[id] <= depth) return AddSlot(id, *path);
    if (++visits_ > kMaxVisits) return;
    auto known = [&](size_t i) { return depths_[term.operands[i]] <= depth; };
    auto under = [&](size_t condition, Word word, bool is_word, size_t i) {
      path->push_back({term.operands[condition], word, is_word});
      Visit(term.operands[i], depth, path);
      path->pop_back();
    };
    const bool is_logic = term.op == TermOp::kAnd || term.op == TermOp::kOr;
    const Word decides = term.op == TermOp::kAnd ? 0 : 1;
    if (is_logic && known(0)) {
      Visit(term.operands[0], depth, path);
      under(0, decides, false, 1);
    } else if (is_logic && known(1) && !plan_.graph.terms[term.operands[0]].may_fail) {
      Visit(term.operands[1], depth, path);
      under(1, decides, false, 0);
    } else if (term.op == TermOp::kSelect && known(0)) {
      Visit(term.operands[0], depth, path);
      under(0, 1, true, 1);
      under(0, 0, true, 2);
    } else {
      for (TermId operand : term.operands) Visit(operand, depth, path);
    }
  }

  void AddSlot(TermId id, const Path& path) {
    const auto [it, inserted] = slots_.try_emplace(id);
    Slot& slot = it->second;
    if (inserted) {
      const Term& term = plan_.graph.terms[id];
      slot.term = id;
      slot.filler = term.type == TermType::kReal ? WordOf(term.real_low) : term.low;
      slot.paths.push_back(path);
    } else if (!slot.paths.empty()) {
      slot.paths.push_back(path);
    }
    const bool always = std::any_of(slot.paths.begin(), slot.paths.end(),
                                    [](const Path& one) { return one.empty(); });
    if (always || slot.paths.size() > kMaxPaths) slot.paths.clear();
  }

  const TermGraph& source_;
  ColumnPlan plan_;
  std::vector<int> level_of_;
  std::vector<int> depths_;  // of each term of the plan's graph; -1 for constants
  std::map<TermId, TermId> lowered_;
  std::vector<Root> roots_;
  std::map<TermId, Slot> slots_;
  size_t visits_ = 0;
};

}  // namespace

ColumnPlan MakeColumnPlan(const TermGraph& graph, const std::vector<Atom>& atoms,
                          const std::vector<size_t>& order) {
  return Planner(graph, order).Plan(atoms);
}

}  // namespace tune
