// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/param_order.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tune {
namespace {

constexpr size_t kSamples = 128;
// An order that is expected to cost fewer candidates than this is not worth improving.
constexpr double kCheap = 4000;
constexpr int kMaxPasses = 4;
// The limit of terms visited, in some 10 ms. With too many params and constraints for that, the
// best order found so far is used.
constexpr uint64_t kMaxWork = 3'000'000;

uint64_t NextRandom(uint64_t* state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Estimates how many nodes there are once a set of params has values.
class WidthEstimate {
 public:
  WidthEstimate(const TermGraph& graph, const std::vector<Atom>& atoms,
                const std::vector<std::vector<Word>>& param_words,
                const std::vector<size_t>& radices)
      : graph_(graph), atoms_(atoms), radices_(radices) {
    Sample(param_words);
    for (const Atom& atom : atoms_) MarkUsed(atom);
    for (TermId id = 0; id < graph.terms.size(); ++id) {
      if (is_used_[id] && !graph.terms[id].operands.empty()) inner_.push_back(id);
    }
    stamps_.assign(graph.terms.size(), 0);
  }

  double operator()(ParamSet assigned) {
    const auto [it, inserted] = known_.try_emplace(assigned, 0);
    if (inserted) it->second = Compute(assigned);
    return it->second;
  }

  bool is_spent() const { return work_ > kMaxWork; }

  double CostOf(const std::vector<size_t>& order) {
    double cost = 0;
    ParamSet assigned = 0;
    for (size_t param : order) {
      cost += (*this)(assigned) * static_cast<double>(radices_[param]);
      assigned |= ParamSet{1} << param;
    }
    return cost;
  }

  // About how many of the assignments of its params an atom lets through.
  double Selectivity(size_t atom) const { return selectivity_[atom]; }

 private:
  // Runs every term for some random assignments, to see how often atoms hold and how many values
  // terms take.
  void Sample(const std::vector<std::vector<Word>>& param_words) {
    uint64_t random = 1;
    std::vector<std::vector<Word>> columns(graph_.terms.size());
    distinct_.assign(graph_.terms.size(), 1);
    for (TermId id = 0; id < graph_.terms.size(); ++id) {
      const Term& term = graph_.terms[id];
      columns[id].assign(kSamples, term.word);
      if (term.op == TermOp::kParam) {
        const std::vector<Word>& words = param_words[term.param];
        for (Word& word : columns[id]) word = words[NextRandom(&random) % words.size()];
      } else if (!term.operands.empty()) {
        Run(term, columns, &columns[id]);
      }
      distinct_[id] = DistinctOf(term, columns[id]);
    }
    for (const Atom& atom : atoms_) {
      if (atom.is_opaque) {
        selectivity_.push_back(0.5);
        continue;
      }
      const std::vector<Word>& column = columns[atom.term];
      const auto held = std::count_if(column.begin(), column.end(), [](Word w) { return w != 0; });
      selectivity_.push_back((static_cast<double>(held) + 0.5) / (kSamples + 1));
    }
  }

  void Run(const Term& term, const std::vector<std::vector<Word>>& columns,
           std::vector<Word>* out) const {
    auto column = [&](size_t i) {
      return i < term.operands.size() ? Column{columns[term.operands[i]].data(), 0} : Column{};
    };
    if (term.op != TermOp::kSum && term.op != TermOp::kProduct) {
      ApplyTermToColumns(graph_, term, column(0), column(1), column(2), kSamples, out->data());
      return;
    }
    *out = columns[term.operands[0]];
    for (size_t i = 1; i < term.operands.size(); ++i) {
      const std::vector<Word>& next = columns[term.operands[i]];
      for (size_t j = 0; j < kSamples; ++j) {
        (*out)[j] = term.op == TermOp::kSum ? (*out)[j] + next[j] : (*out)[j] * next[j];
      }
    }
  }

  double DistinctOf(const Term& term, std::vector<Word> column) const {
    double most = Combinations(term.params);
    if (term.type != TermType::kReal) {
      most = std::min(most, static_cast<double>(term.high) - static_cast<double>(term.low) + 1);
    }
    if (most <= 8) return std::max(most, 1.0);
    std::sort(column.begin(), column.end());
    const auto seen =
        static_cast<double>(std::unique(column.begin(), column.end()) - column.begin());
    // If few values were seen, they are about all there are. If many were seen, there may be more.
    return seen < kSamples / 3 ? std::min(most, seen * 1.2) : most;
  }

  double Combinations(ParamSet params) const {
    double product = 1;
    for (size_t param = 0; params != 0; ++param, params >>= 1) {
      if ((params & 1) != 0) product *= static_cast<double>(radices_[param]);
    }
    return product;
  }

  void MarkUsed(const Atom& atom) {
    is_used_.resize(graph_.terms.size(), false);
    std::vector<TermId> open;
    if (!atom.is_opaque) open.push_back(atom.term);
    while (!open.empty()) {
      const TermId id = open.back();
      open.pop_back();
      if (is_used_[id]) continue;
      is_used_[id] = true;
      const std::vector<TermId>& operands = graph_.terms[id].operands;
      open.insert(open.end(), operands.begin(), operands.end());
    }
  }

  // The number of assignments that pass, over params that something still depends on.
  double Passing(ParamSet params) const {
    double passing = Combinations(params);
    for (size_t i = 0; i < atoms_.size(); ++i) {
      if ((atoms_[i].params & ~params) == 0) passing *= selectivity_[i];
    }
    return std::max(passing, 1.0);
  }

  double Compute(ParamSet assigned) {
    ++stamp_;
    work_ += inner_.size() + atoms_.size();
    double slots = 1;
    ParamSet kept = 0;
    auto add = [&](double distinct, ParamSet params) {
      slots = std::min(slots * distinct, 1e100);
      kept |= params;
    };
    for (const Atom& atom : atoms_) {
      const bool is_open = (atom.params & ~assigned) != 0;
      if (atom.is_opaque && is_open) {
        add(Combinations(atom.params & assigned), atom.params & assigned);
      }
    }
    for (TermId id : inner_) {
      const Term& term = graph_.terms[id];
      if ((term.params & ~assigned) == 0) continue;
      const bool is_chain = term.op == TermOp::kSum || term.op == TermOp::kProduct;
      double group = 1;
      ParamSet group_params = 0;
      for (TermId operand : term.operands) {
        const ParamSet params = graph_.terms[operand].params;
        if (params == 0 || (params & ~assigned) != 0) continue;
        if (is_chain) {
          group *= distinct_[operand];
          group_params |= params;
        } else if (stamps_[operand] != stamp_) {
          stamps_[operand] = stamp_;
          add(distinct_[operand], params);
        }
      }
      if (group_params != 0) add(std::min(group, distinct_[id]), group_params);
    }
    return std::min({slots, Passing(kept), Passing(assigned)});
  }

  const TermGraph& graph_;
  const std::vector<Atom>& atoms_;
  const std::vector<size_t>& radices_;
  std::vector<double> distinct_;     // values of each term, about
  std::vector<double> selectivity_;  // of each atom
  std::vector<bool> is_used_;
  std::vector<TermId> inner_;  // used terms with operands
  std::vector<uint64_t> stamps_;
  uint64_t stamp_ = 0;
  uint64_t work_ = 0;
  std::unordered_map<ParamSet, double> known_;
};

// Takes, each time, the param that leaves the fewest nodes.
std::vector<size_t> Greedy(WidthEstimate* width, const std::vector<size_t>& radices,
                           std::vector<size_t> left, size_t first) {
  std::vector<size_t> order = {first};
  left.erase(std::find(left.begin(), left.end(), first));
  ParamSet assigned = ParamSet{1} << first;
  while (!left.empty()) {
    auto cost = [&](size_t param) {
      return (*width)(assigned | ParamSet{1} << param) /
             std::max(1.0, static_cast<double>(radices[param]) * 1e-3);
    };
    const auto best = std::min_element(left.begin(), left.end(),
                                       [&](size_t a, size_t b) { return cost(a) < cost(b); });
    assigned |= ParamSet{1} << *best;
    order.push_back(*best);
    left.erase(best);
  }
  return order;
}

// Completes one atom after the other. Each time it is the one with the fewest new combinations.
std::vector<size_t> AtomByAtom(const std::vector<Atom>& atoms, const std::vector<size_t>& radices,
                               const std::vector<size_t>& params) {
  std::vector<size_t> order;
  ParamSet assigned = 0;
  auto combinations = [&](ParamSet set) {
    double product = 1;
    for (size_t param : params) {
      if (Has(set, param)) product *= static_cast<double>(radices[param]);
    }
    return product;
  };
  while (order.size() < params.size()) {
    ParamSet next = 0;
    for (const Atom& atom : atoms) {
      const ParamSet fresh = atom.params & ~assigned;
      if (fresh == 0) continue;
      if (next == 0 || combinations(fresh) < combinations(next)) next = fresh;
    }
    for (size_t param : params) {
      const bool take = next == 0 ? !Has(assigned, param) : Has(next, param);
      if (take) order.push_back(param);
    }
    for (size_t param : order) assigned |= ParamSet{1} << param;
  }
  return order;
}

// Moves one param at a time to where it costs least.
void Improve(WidthEstimate* width, std::vector<size_t>* order, double* cost) {
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    const double before = *cost;
    for (size_t from = 0; from < order->size() && !width->is_spent(); ++from) {
      std::vector<size_t> best = *order;
      for (size_t to = 0; to < order->size(); ++to) {
        std::vector<size_t> moved = *order;
        const size_t param = moved[from];
        moved.erase(moved.begin() + static_cast<std::ptrdiff_t>(from));
        moved.insert(moved.begin() + static_cast<std::ptrdiff_t>(to), param);
        const double moved_cost = width->CostOf(moved);
        if (moved_cost >= *cost) continue;
        *cost = moved_cost;
        best = std::move(moved);
      }
      *order = std::move(best);
    }
    if (*cost > before * 0.99 || *cost < kCheap || width->is_spent()) return;
  }
}

}  // namespace

std::vector<size_t> ChooseOrder(const TermGraph& graph, const std::vector<Atom>& atoms,
                                const std::vector<std::vector<Word>>& param_words,
                                const std::vector<size_t>& radices,
                                const std::vector<size_t>& params) {
  if (params.size() <= 2) return params;
  WidthEstimate width(graph, atoms, param_words, radices);
  std::vector<size_t> best = params;
  double best_cost = width.CostOf(best);
  auto consider = [&](std::vector<size_t> order) {
    const double cost = width.CostOf(order);
    if (cost >= best_cost) return;
    best_cost = cost;
    best = std::move(order);
  };
  consider(AtomByAtom(atoms, radices, params));
  for (size_t first : params) {
    if (best_cost < kCheap || width.is_spent()) break;
    consider(Greedy(&width, radices, params, first));
  }
  if (best_cost >= kCheap && !width.is_spent()) Improve(&width, &best, &best_cost);
  return best;
}

}  // namespace tune
