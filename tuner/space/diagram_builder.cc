// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/diagram_builder.h"

#include <algorithm>
#include <utility>

#include "tuner/space/node_table.h"

namespace tune {
namespace {

// So many candidates are worked on at a time that their columns stay in the cache.
constexpr size_t kChunk = 1024;
// Takes a few milliseconds, since the work of looking nodes up is not counted.
constexpr uint64_t kWorkBetweenAsks = 100'000;

class Builder {
 public:
  Builder(const DiagramInput& input, const DiagramLimits& limits, RunProgram run)
      : input_(input),
        limits_(limits),
        run_(run),
        plan_(MakeColumnPlan(*input.graph, input.atoms, input.order)) {
    const size_t terms = plan_.graph.terms.size();
    slot_of_.assign(terms, -1);
    tiles_.resize(terms);
    buffers_.resize(terms);
    is_live_.assign(terms, false);
    is_tile_.assign(terms, false);
    digits_.resize(input.radices->size());
  }

  DiagramResult Build() && {
    DiagramResult result;
    std::vector<Diagram::Level> levels(plan_.levels.size());
    for (size_t level = 0; level < levels.size(); ++level) {
      levels[level].param = static_cast<uint32_t>(plan_.levels[level].param);
      result.kind = Expand(level, &levels[level]);
      result.work = work_;
      if (result.kind != DiagramResult::Kind::kDone) {
        result.level = level;
        return result;
      }
    }
    result.failed = FailedAssignment(levels.size());
    // There may be a second terminal, for assignments that failed. Both become one.
    for (uint32_t& child : levels.back().children) child = 0;
    table_ = NodeTable(0);
    origins_ = {};
    result.diagram = Diagram::Create(std::move(levels), limits_.stopped);
    if (!result.diagram.has_value()) {
      result.kind =
          limits_.ShouldStop() ? DiagramResult::Kind::kStopped : DiagramResult::Kind::kTooMany;
    }
    return result;
  }

 private:
  // Extends every node of a level.
  DiagramResult::Kind Expand(size_t level, Diagram::Level* result) {
    const PlanLevel& plan = plan_.levels[level];
    PrepareLevel(level);
    const size_t nodes = level == 0 ? 1 : table_.size();
    NodeTable next(plan.slots.size() + (plan_.may_fail ? 1 : 0));
    NodeTable* const table = &next;
    result->first_edge.assign(1, 0);
    const size_t radix = allowed_.size();
    const size_t step = std::max<size_t>(1, kChunk / std::max<size_t>(radix, 1));
    Reserve(nodes * radix, table, result);
    for (size_t first = 0; first < nodes && radix > 0; first += step) {
      FillCandidates(first, std::min(nodes, first + step));
      Check(plan);
      AddEdges(level, first, std::min(nodes, first + step), table, result);
      work_ += step * radix * (plan.terms.size() + 2);
      edges_ += parents_.size();
      if (work_ > limits_.work || edges_ > limits_.edges || BytesHeld(*table) > limits_.bytes) {
        return DiagramResult::Kind::kTooWide;
      }
      if (work_ >= next_ask_) {
        next_ask_ = work_ + kWorkBetweenAsks;
        if (limits_.ShouldStop()) return DiagramResult::Kind::kStopped;
      }
    }
    result->first_edge.resize(nodes + 1, static_cast<uint32_t>(result->digits.size()));
    table_ = std::move(next);
    return DiagramResult::Kind::kDone;
  }

  // While a long vector grows, it is held twice. So its memory is reserved beforehand.
  void Reserve(uint64_t most, NodeTable* table, Diagram::Level* result) const {
    constexpr uint64_t kFew = 1 << 18;
    if (most < kFew) return;
    const size_t count = std::min(most, limits_.edges - edges_ + kChunk + allowed_.size());
    result->digits.reserve(count);
    result->children.reserve(count);
    const size_t node_bytes = (table->width() + 1) * sizeof(Word);
    table->Reserve(std::min(count, limits_.bytes / node_bytes + kChunk + allowed_.size()));
  }

  // The levels so far, the nodes of two of them, and the columns.
  uint64_t BytesHeld(const NodeTable& next) const {
    constexpr uint64_t kEdgeBytes = sizeof(uint16_t) + sizeof(uint32_t);
    uint64_t bytes = edges_ * kEdgeBytes + table_.bytes() + next.bytes() + column_bytes_;
    for (const auto& origins : origins_) bytes += origins.capacity() * sizeof(origins[0]);
    return bytes;
  }

  // Terms that depend on this level's param alone are computed once for each digit.
  void PrepareLevel(size_t level) {
    const PlanLevel& plan = plan_.levels[level];
    std::fill(slot_of_.begin(), slot_of_.end(), -1);
    if (level > 0) {
      const std::vector<Slot>& slots = plan_.levels[level - 1].slots;
      for (size_t i = 0; i < slots.size(); ++i) slot_of_[slots[i].term] = static_cast<int>(i);
    }
    std::fill(is_tile_.begin(), is_tile_.end(), false);
    const size_t radix = (*input_.radices)[plan.param];
    const ParamSet own = ParamSet{1} << plan.param;
    parents_.assign(radix, 0);
    digits_of_.resize(radix);
    for (size_t digit = 0; digit < radix; ++digit) digits_of_[digit] = static_cast<uint32_t>(digit);
    for (TermId id = 0; id < plan_.graph.terms.size(); ++id) {
      const Term& term = plan_.graph.terms[id];
      if (term.params != own) continue;
      std::vector<Word>& tile = tiles_[id];
      column_bytes_ += (radix - std::min(radix, tile.size())) * sizeof(Word);
      tile.resize(radix);
      if (term.op == TermOp::kDigit) {
        for (size_t digit = 0; digit < radix; ++digit) tile[digit] = static_cast<Word>(digit);
      } else if (term.op == TermOp::kParam) {
        tile = (*input_.param_words)[plan.param];
      } else {
        const Column column = Get(id);
        std::copy_n(column.words, radix, tile.begin());
      }
      is_tile_[id] = true;
    }
    ForgetColumns();
    allowed_.clear();
    for (size_t digit = 0; digit < radix; ++digit) {
      const bool rejected = std::any_of(plan.decided.begin(), plan.decided.end(), [&](TermId id) {
        return is_tile_[id] && tiles_[id][digit] == 0;
      });
      if (!rejected) allowed_.push_back(static_cast<uint32_t>(digit));
    }
  }

  void FillCandidates(size_t first, size_t end) {
    const size_t radix = allowed_.size();
    parents_.resize((end - first) * radix);
    digits_of_.resize(parents_.size());
    size_t at = 0;
    for (size_t node = first; node < end; ++node) {
      for (size_t i = 0; i < radix; ++i, ++at) {
        parents_[at] = static_cast<uint32_t>(node);
        digits_of_[at] = allowed_[i];
      }
    }
    failed_.clear();
    if (plan_.may_fail) {
      failed_.assign(parents_.size(), 0);
      if (table_.width() > 0 && table_.size() > 0) {
        const Word* failed = table_.column(table_.width() - 1);
        for (size_t i = 0; i < parents_.size(); ++i) failed_[i] = failed[parents_[i]];
      }
    }
    ForgetColumns();
  }

  void ForgetColumns() {
    for (TermId id : live_) is_live_[id] = false;
    live_.clear();
  }

  // The words of a term for the candidates.
  Column Get(TermId id) {
    const Term& term = plan_.graph.terms[id];
    if (term.op == TermOp::kConstant) return {nullptr, term.word};
    std::vector<Word>& buffer = buffers_[id];
    if (is_live_[id]) return {buffer.data(), 0};
    const size_t count = parents_.size();
    if (buffer.size() < count) {
      column_bytes_ += (std::max(count, kChunk) - buffer.size()) * sizeof(Word);
      buffer.resize(std::max(count, kChunk));
    }
    if (is_tile_[id]) {
      const Word* tile = tiles_[id].data();
      for (size_t i = 0; i < count; ++i) buffer[i] = tile[digits_of_[i]];
    } else if (slot_of_[id] >= 0) {
      const Word* column = table_.column(static_cast<size_t>(slot_of_[id]));
      for (size_t i = 0; i < count; ++i) buffer[i] = column[parents_[i]];
    } else {
      Column operands[3];
      for (size_t i = 0; i < term.operands.size(); ++i) operands[i] = Get(term.operands[i]);
      ApplyTermToColumns(plan_.graph, term, operands[0], operands[1], operands[2], count,
                         buffer.data());
    }
    is_live_[id] = true;
    live_.push_back(id);
    return {buffer.data(), 0};
  }

  // Drops the candidates that an atom decided here rejects.
  void Check(const PlanLevel& plan) {
    for (TermId id : plan.decided) {
      const Term& term = plan_.graph.terms[id];
      if (is_tile_[id] && !term.may_fail) continue;  // no longer among the allowed digits
      const Column column = Get(id);
      keep_.clear();
      for (uint32_t i = 0; i < parents_.size(); ++i) {
        const Word word = column.words == nullptr ? column.constant : column.words[i];
        if (word == kPoison) failed_[i] = 1;
        if (word != 0) keep_.push_back(i);
      }
      Keep();
    }
    for (const PlanProgram& program : plan.programs) RunOn(program);
  }

  void RunOn(const PlanProgram& program) {
    std::vector<Column> columns;
    for (TermId id : program.digits) columns.push_back(Get(id));
    keep_.clear();
    for (uint32_t i = 0; i < parents_.size(); ++i) {
      for (size_t j = 0; j < columns.size(); ++j) {
        digits_[plan_.graph.terms[program.digits[j]].param] =
            static_cast<uint16_t>(columns[j].words[i]);
      }
      const Verdict verdict = run_(program.program, digits_);
      if (verdict == Verdict::kFailed) failed_[i] = 1;
      if (verdict != Verdict::kFalse) keep_.push_back(i);
    }
    work_ += parents_.size() * 64;
    Keep();
  }

  // Keeps the candidates in keep_, which ascends.
  void Keep() {
    if (keep_.size() == parents_.size()) return;
    for (size_t i = 0; i < keep_.size(); ++i) {
      parents_[i] = parents_[keep_[i]];
      digits_of_[i] = digits_of_[keep_[i]];
    }
    parents_.resize(keep_.size());
    digits_of_.resize(keep_.size());
    if (plan_.may_fail) {
      for (size_t i = 0; i < keep_.size(); ++i) failed_[i] = failed_[keep_[i]];
    }
    for (TermId id : live_) {
      Word* words = buffers_[id].data();
      for (size_t i = 0; i < keep_.size(); ++i) words[i] = words[keep_[i]];
    }
  }

  // Adds an edge for each candidate left, to the node that its slots name.
  void AddEdges(size_t level, size_t first, size_t end, NodeTable* table, Diagram::Level* result) {
    const PlanLevel& plan = plan_.levels[level];
    const size_t count = parents_.size();
    std::vector<const Word*>& keys = keys_;
    keys.clear();
    for (const Slot& slot : plan.slots) keys.push_back(Get(slot.term).words);
    filled_.resize(plan.slots.size());
    for (size_t i = 0; i < plan.slots.size(); ++i) {
      if (!plan.slots[i].paths.empty()) keys[i] = Fill(plan.slots[i], &filled_[i]);
    }
    if (plan_.may_fail) keys.push_back(failed_.data());
    const size_t at = result->children.size();
    result->children.resize(at + count);
    table->Insert(keys, count, result->children.data() + at, &fresh_);
    if (plan_.may_fail) {
      origins_.resize(level + 1);
      for (uint32_t i : fresh_) origins_[level].push_back({parents_[i], digits_of_[i]});
    }
    for (size_t i = 0; i < count; ++i) {
      result->digits.push_back(static_cast<uint16_t>(digits_of_[i]));
    }
    size_t edge = 0;
    for (size_t node = first; node < end; ++node) {
      while (edge < count && parents_[edge] == node) ++edge;
      result->first_edge.push_back(static_cast<uint32_t>(at + edge));
    }
  }

  // The slot's words, with the filler where the slot does not matter.
  const Word* Fill(const Slot& slot, std::vector<Word>* filled) {
    const size_t count = parents_.size();
    const Word* words = Get(slot.term).words;
    matters_.assign(count, 0);
    for (const std::vector<Slot::Condition>& path : slot.paths) {
      holds_.assign(count, 1);
      for (const Slot::Condition& condition : path) {
        const Word* given = Get(condition.term).words;
        for (size_t i = 0; i < count; ++i) {
          holds_[i] &= (given[i] == condition.word) == condition.is_word ? 1 : 0;
        }
      }
      for (size_t i = 0; i < count; ++i) matters_[i] |= holds_[i];
    }
    filled->resize(std::max(count, kChunk));
    for (size_t i = 0; i < count; ++i) (*filled)[i] = matters_[i] != 0 ? words[i] : slot.filler;
    return filled->data();
  }

  // Found by way of the first parent of every node.
  std::optional<std::vector<uint16_t>> FailedAssignment(size_t level_count) const {
    if (!plan_.may_fail) return std::nullopt;
    const Word* failed = table_.column(table_.width() - 1);
    uint32_t node = 0;
    while (node < table_.size() && failed[node] == 0) ++node;
    if (node == table_.size()) return std::nullopt;
    std::vector<uint16_t> digits(input_.radices->size(), 0);
    for (size_t level = level_count; level-- > 0;) {
      const auto [parent, digit] = origins_[level][node];
      digits[plan_.levels[level].param] = static_cast<uint16_t>(digit);
      node = parent;
    }
    return digits;
  }

  const DiagramInput& input_;
  const DiagramLimits limits_;
  const RunProgram run_;
  const ColumnPlan plan_;
  uint64_t work_ = 0;
  uint64_t edges_ = 0;
  uint64_t next_ask_ = 0;
  uint64_t column_bytes_ = 0;  // of tiles and buffers

  NodeTable table_{0};                    // the nodes of the level that is extended
  std::vector<int> slot_of_;              // of a term, among the slots of the level before
  std::vector<std::vector<Word>> tiles_;  // by digit, of terms of this level's param alone
  std::vector<bool> is_tile_;
  std::vector<uint32_t> allowed_;  // digits

  // Candidates: a node and a digit each.
  std::vector<uint32_t> parents_;
  std::vector<uint32_t> digits_of_;
  std::vector<Word> failed_;  // only if the plan may fail
  std::vector<std::vector<Word>> buffers_;
  std::vector<TermId> live_;  // terms with words for the candidates in their buffers
  std::vector<bool> is_live_;

  std::vector<uint32_t> keep_;
  std::vector<const Word*> keys_;
  std::vector<uint32_t> fresh_;
  std::vector<std::vector<Word>> filled_;
  std::vector<uint8_t> matters_;
  std::vector<uint8_t> holds_;
  std::vector<uint16_t> digits_;  // by param, for programs
  // For each level and each node below it, the first parent and digit; only if the plan may fail.
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> origins_;
};

}  // namespace

DiagramResult BuildDiagram(const DiagramInput& input, const DiagramLimits& limits, RunProgram run) {
  return Builder(input, limits, run).Build();
}

}  // namespace tune
