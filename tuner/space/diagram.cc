// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/diagram.h"

#include <algorithm>
#include <bit>

namespace tune {
namespace {

constexpr uint32_t kNodesBetweenAsks = 1024;
constexpr size_t kMarkEvery = 16;

// Copies the live edges of one level, merging nodes that become the same.
class LevelReducer {
 public:
  LevelReducer(const Diagram::Level& source, const std::vector<uint32_t>& child_ids,
               const std::vector<uint64_t>& child_counts, const std::function<bool()>& stopped)
      : source_(source), child_ids_(child_ids), child_counts_(child_counts), stopped_(stopped) {
    const size_t nodes = source.first_edge.size() - 1;
    result_.param = source.param;
    result_.first_edge.push_back(0);
    result_.digits.reserve(source.digits.size());
    result_.children.reserve(source.digits.size());
    table_.assign(std::bit_ceil(nodes * 2 + 1), 0);
    ids_.assign(nodes, kDead);
  }

  // False: a count does not fit, or it was stopped.
  bool Run() {
    for (uint32_t node = 0; node < ids_.size(); ++node) {
      if (node % kNodesBetweenAsks == 0 && stopped_ && stopped_()) return false;
      const size_t begin = result_.digits.size();
      uint64_t count = 0;
      uint64_t hash = 0;
      for (uint32_t edge = source_.first_edge[node]; edge < source_.first_edge[node + 1]; ++edge) {
        const uint32_t child = child_ids_[source_.children[edge]];
        if (child == kDead) continue;
        result_.digits.push_back(source_.digits[edge]);
        result_.children.push_back(child);
        hash = (hash ^ (uint64_t{child} << 16 | source_.digits[edge])) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 29;
        count += child_counts_[child];
        if (count > uint64_t{1} << 62) return false;
      }
      if (result_.digits.size() > begin) ids_[node] = Merge(begin, hash, count);
    }
    AddMarks();
    return true;
  }

  static constexpr uint32_t kDead = ~uint32_t{0};
  Diagram::Level result_;
  std::vector<uint32_t> ids_;  // of the source's nodes

 private:
  void AddMarks() {
    const std::vector<uint32_t>& first_edge = result_.first_edge;
    for (size_t node = 0; node + 1 < first_edge.size(); ++node) {
      uint64_t before = 0;
      for (uint32_t edge = first_edge[node]; edge < first_edge[node + 1]; ++edge) {
        if (edge % kMarkEvery == 0) result_.marks.push_back(before);
        before += child_counts_[result_.children[edge]];
      }
    }
  }

  // The node made of the edges from `begin` on, or an earlier node that is the same.
  uint32_t Merge(size_t begin, uint64_t hash, uint64_t count) {
    const size_t size = result_.digits.size() - begin;
    size_t at = (hash ^ hash >> 32) & (table_.size() - 1);
    while (table_[at] != 0) {
      const uint32_t other = table_[at] - 1;
      const size_t other_begin = result_.first_edge[other];
      if (result_.first_edge[other + 1] - other_begin == size &&
          std::equal(&result_.children[begin], &result_.children[begin] + size,
                     &result_.children[other_begin]) &&
          std::equal(&result_.digits[begin], &result_.digits[begin] + size,
                     &result_.digits[other_begin])) {
        result_.digits.resize(begin);
        result_.children.resize(begin);
        return other;
      }
      at = (at + 1) & (table_.size() - 1);
    }
    result_.counts.push_back(count);
    result_.first_edge.push_back(static_cast<uint32_t>(result_.digits.size()));
    table_[at] = static_cast<uint32_t>(result_.counts.size());
    return static_cast<uint32_t>(result_.counts.size() - 1);
  }

  const Diagram::Level& source_;
  const std::vector<uint32_t>& child_ids_;
  const std::vector<uint64_t>& child_counts_;
  const std::function<bool()>& stopped_;
  std::vector<uint32_t> table_;  // node + 1
};

}  // namespace

std::optional<Diagram> Diagram::Create(std::vector<Level> levels,
                                       const std::function<bool()>& stopped) {
  Diagram diagram;
  std::vector<uint32_t> ids = {0};
  const std::vector<uint64_t> terminal = {1};
  for (size_t level = levels.size(); level-- > 0;) {
    LevelReducer reducer(levels[level], ids,
                         level + 1 < levels.size() ? levels[level + 1].counts : terminal, stopped);
    if (!reducer.Run()) return std::nullopt;
    ids = std::move(reducer.ids_);
    levels[level] = std::move(reducer.result_);
    // Gives back what was reserved for edges that turned out to lead nowhere.
    levels[level].digits.shrink_to_fit();
    levels[level].children.shrink_to_fit();
    levels[level].counts.shrink_to_fit();
    levels[level].marks.shrink_to_fit();
  }
  diagram.count_ = ids[0] == LevelReducer::kDead ? 0 : levels[0].counts[0];
  diagram.levels_ = std::move(levels);
  return diagram;
}

size_t Diagram::edge_count() const {
  size_t edges = 0;
  for (const Level& level : levels_) edges += level.digits.size();
  return edges;
}

size_t Diagram::bytes() const {
  size_t bytes = 0;
  for (const Level& level : levels_) {
    bytes += level.first_edge.capacity() * sizeof(uint32_t) +
             level.digits.capacity() * sizeof(uint16_t) +
             level.children.capacity() * sizeof(uint32_t) +
             (level.counts.capacity() + level.marks.capacity()) * sizeof(uint64_t);
  }
  return bytes;
}

uint64_t Diagram::Before(size_t level, uint32_t node, size_t edge) const {
  size_t at = levels_[level].first_edge[node];
  if (level + 1 == levels_.size()) return edge - at;
  uint64_t before = 0;
  if (const size_t marked = edge - edge % kMarkEvery; marked > at) {
    at = marked;
    before = levels_[level].marks[marked / kMarkEvery];
  }
  for (; at < edge; ++at) before += Below(level, at);
  return before;
}

uint32_t Diagram::EdgeAt(size_t level, uint32_t node, uint64_t* rank) const {
  const Level& here = levels_[level];
  uint32_t edge = here.first_edge[node];
  const auto first = here.marks.begin() + edge / kMarkEvery + 1;
  const auto end = here.marks.begin() + (here.first_edge[node + 1] - 1) / kMarkEvery + 1;
  if (first < end) {
    const auto mark = std::upper_bound(first, end, *rank) - 1;
    if (mark >= first) {
      edge = static_cast<uint32_t>((mark - here.marks.begin()) * kMarkEvery);
      *rank -= *mark;
    }
  }
  for (uint64_t below = Below(level, edge); *rank >= below; below = Below(level, edge)) {
    *rank -= below;
    ++edge;
  }
  return edge;
}

void Diagram::DigitsAt(uint64_t rank, absl::Span<uint16_t> digits) const {
  uint32_t node = 0;
  for (size_t level = 0; level < levels_.size(); ++level) {
    const uint32_t edge = EdgeAt(level, node, &rank);
    digits[levels_[level].param] = levels_[level].digits[edge];
    node = levels_[level].children[edge];
  }
}

std::optional<uint32_t> Diagram::FindEdge(const Level& level, uint32_t node, uint16_t digit) {
  const uint16_t* begin = level.digits.data() + level.first_edge[node];
  const uint16_t* end = level.digits.data() + level.first_edge[node + 1];
  const uint16_t* at = std::lower_bound(begin, end, digit);
  if (at == end || *at != digit) return std::nullopt;
  return static_cast<uint32_t>(at - level.digits.data());
}

std::optional<uint64_t> Diagram::RankFrom(absl::Span<const uint16_t> digits, size_t level,
                                          uint32_t node) const {
  uint64_t rank = 0;
  for (; level < levels_.size(); ++level) {
    const Level& here = levels_[level];
    const std::optional<uint32_t> edge = FindEdge(here, node, digits[here.param]);
    if (!edge.has_value()) return std::nullopt;
    rank += Before(level, node, *edge);
    node = here.children[*edge];
  }
  return rank;
}

std::optional<uint64_t> Diagram::RankOf(absl::Span<const uint16_t> digits) const {
  return RankFrom(digits, 0, 0);
}

void Diagram::Neighbours(absl::Span<const uint16_t> digits, size_t level, bool adjacent,
                         absl::FunctionRef<void(uint64_t rank)> found) const {
  uint64_t rank = 0;
  uint32_t node = 0;
  for (size_t above = 0; above < level; ++above) {
    const std::optional<uint32_t> edge =
        FindEdge(levels_[above], node, digits[levels_[above].param]);
    rank += Before(above, node, *edge);
    node = levels_[above].children[*edge];
  }
  const Level& here = levels_[level];
  const int own = digits[here.param];
  for (uint32_t edge = here.first_edge[node]; edge < here.first_edge[node + 1]; ++edge) {
    const int distance = here.digits[edge] - own;
    if (distance == 0 || (adjacent && distance != 1 && distance != -1)) continue;
    const std::optional<uint64_t> below = RankFrom(digits, level + 1, here.children[edge]);
    if (below.has_value()) found(rank + Before(level, node, edge) + *below);
  }
}

std::vector<uint64_t> Diagram::DigitCounts(size_t level, size_t radix) const {
  // Ways from the root to each node, level by level.
  std::vector<uint64_t> ways = {1};
  for (size_t above = 0; above < level; ++above) {
    const Level& here = levels_[above];
    std::vector<uint64_t> next(levels_[above + 1].first_edge.size() - 1, 0);
    for (size_t node = 0; node + 1 < here.first_edge.size(); ++node) {
      for (uint32_t edge = here.first_edge[node]; edge < here.first_edge[node + 1]; ++edge) {
        next[here.children[edge]] += ways[node];
      }
    }
    ways = std::move(next);
  }
  const Level& here = levels_[level];
  std::vector<uint64_t> result(radix, 0);
  for (size_t node = 0; node + 1 < here.first_edge.size(); ++node) {
    for (uint32_t edge = here.first_edge[node]; edge < here.first_edge[node + 1]; ++edge) {
      result[here.digits[edge]] += ways[node] * Below(level, edge);
    }
  }
  return result;
}

DiagramCursor::DiagramCursor(const Diagram& diagram, uint64_t rank, absl::Span<uint16_t> digits)
    : diagram_(&diagram), edges_(diagram.levels_.size()), ends_(diagram.levels_.size()) {
  uint32_t node = 0;
  for (size_t i = 0; i < edges_.size(); ++i) {
    const Diagram::Level& level = diagram.levels_[i];
    edges_[i] = diagram.EdgeAt(i, node, &rank);
    ends_[i] = level.first_edge[node + 1];
    digits[level.param] = level.digits[edges_[i]];
    node = level.children[edges_[i]];
  }
}

void DiagramCursor::Descend(size_t level, uint32_t node, absl::Span<uint16_t> digits) {
  for (; level < edges_.size(); ++level) {
    const Diagram::Level& here = diagram_->levels_[level];
    edges_[level] = here.first_edge[node];
    ends_[level] = here.first_edge[node + 1];
    digits[here.param] = here.digits[edges_[level]];
    node = here.children[edges_[level]];
  }
}

bool DiagramCursor::Next(absl::Span<uint16_t> digits) {
  for (size_t level = edges_.size(); level-- > 0;) {
    if (++edges_[level] == ends_[level]) continue;
    const Diagram::Level& here = diagram_->levels_[level];
    digits[here.param] = here.digits[edges_[level]];
    Descend(level + 1, here.children[edges_[level]], digits);
    return true;
  }
  Descend(0, 0, digits);
  return false;
}

}  // namespace tune
