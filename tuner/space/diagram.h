// SPDX-License-Identifier: Apache-2.0
// The assignments of a group of params as a decision diagram. It has a level for each param, an
// edge for each digit, and one node for all beginnings that go on alike. The number of assignments
// below each edge is known, so the i-th is found without listing the others. Internal to
// tuner/space.
//
// Source: S. Minato, "Zero-suppressed BDDs", 1993, and D. E. Knuth, "The Art of Computer
// Programming", vol. 4A, 7.1.4, for counting and ranking in diagrams.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace tune {

class Diagram {
 public:
  struct Level {
    uint32_t param = 0;
    std::vector<uint32_t> first_edge;  // of each node, and the end
    // The digit of each edge. Those of a node's edges ascend.
    std::vector<uint16_t> digits;
    std::vector<uint32_t> children;  // nodes of the next level; 0 on the last
    // Both set by Create. `counts`: how many assignments there are below each node. `marks`: how
    // many assignments of the node have a smaller digit, for every sixteenth edge. For every edge
    // they would be most of the memory.
    std::vector<uint64_t> counts;
    std::vector<uint64_t> marks;
  };

  // Removes edges of `levels` that lead nowhere, with the nodes that only they reach. Nodes with
  // the same continuations become one. Returns nullopt if the count does not fit 63 bits, or once
  // `stopped`, which is called now and then, returns true.
  static std::optional<Diagram> Create(std::vector<Level> levels,
                                       const std::function<bool()>& stopped = {});

  uint64_t count() const { return count_; }
  const std::vector<Level>& levels() const { return levels_; }
  size_t edge_count() const;
  size_t bytes() const;

  // `digits` has one for each param of the whole space. Only those of this diagram's params are
  // written or read.
  // REQUIRES: rank < count().
  void DigitsAt(uint64_t rank, absl::Span<uint16_t> digits) const;
  std::optional<uint64_t> RankOf(absl::Span<const uint16_t> digits) const;

  // The ranks of the assignments that differ from the one with these digits only in the param of
  // `level`. If `adjacent`, they differ there by one digit.
  // REQUIRES: the digits are of an assignment.
  void Neighbours(absl::Span<const uint16_t> digits, size_t level, bool adjacent,
                  absl::FunctionRef<void(uint64_t rank)> found) const;

  // How many assignments have each digit of the param of `level`.
  std::vector<uint64_t> DigitCounts(size_t level, size_t radix) const;

 private:
  friend class DiagramCursor;
  // How many assignments are below an edge.
  uint64_t Below(size_t level, size_t edge) const {
    return level + 1 < levels_.size() ? levels_[level + 1].counts[levels_[level].children[edge]]
                                      : 1;
  }
  // How many assignments of a node have a smaller digit than the edge's.
  uint64_t Before(size_t level, uint32_t node, size_t edge) const;
  // The edge of a node that the assignment of this rank goes through. Takes from the rank the
  // number of assignments before that edge.
  // REQUIRES: the rank is below the node's count.
  uint32_t EdgeAt(size_t level, uint32_t node, uint64_t* rank) const;
  // The edge of a node with a digit, or nothing.
  static std::optional<uint32_t> FindEdge(const Level& level, uint32_t node, uint16_t digit);
  std::optional<uint64_t> RankFrom(absl::Span<const uint16_t> digits, size_t level,
                                   uint32_t node) const;

  std::vector<Level> levels_;
  uint64_t count_ = 0;
};

// Goes through the assignments of a diagram in order.
class DiagramCursor {
 public:
  // Starts at the assignment of this rank and writes its digits.
  DiagramCursor(const Diagram& diagram, uint64_t rank, absl::Span<uint16_t> digits);
  // Goes to the next assignment and writes its digits over those of the one before. After the last
  // it goes to the first again and returns false.
  bool Next(absl::Span<uint16_t> digits);

 private:
  void Descend(size_t level, uint32_t node, absl::Span<uint16_t> digits);

  const Diagram* diagram_;
  std::vector<uint32_t> edges_;  // one for each level
  std::vector<uint32_t> ends_;   // of the node it belongs to
};

}  // namespace tune
