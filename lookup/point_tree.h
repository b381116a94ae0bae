// SPDX-License-Identifier: Apache-2.0
// Nearest points in a few dimensions, by the sum of the distances along the axes: a k-d tree laid
// out in one array, the median of each range in its middle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

namespace tune::lookup {

// Immutable. Thread-safe.
class PointTree {
 public:
  struct Hit {
    double distance = std::numeric_limits<double>::infinity();
    uint32_t rank = std::numeric_limits<uint32_t>::max();

    // The lower rank is better among equally near points, so that no answer depends on the layout.
    friend auto operator<=>(const Hit&, const Hit&) = default;
  };
  // Inclusive bounds, one for each axis.
  struct Box {
    absl::Span<const double> low;
    absl::Span<const double> high;
  };

  // `coordinates` has `axes` numbers for each rank; of points at one place the one of lowest rank
  // is kept. REQUIRES: no number is not-a-number.
  PointTree(size_t axes, absl::Span<const double> coordinates, std::vector<uint32_t> ranks);
  // A tree over arrays that an earlier tree laid out; they must outlive this one. REQUIRES:
  // `coordinates` has `axes` numbers for each rank.
  static PointTree Over(size_t axes, absl::Span<const double> coordinates,
                        absl::Span<const uint32_t> ranks);
  PointTree(PointTree&&) = default;

  // Returns a tree with one more point.
  PointTree With(absl::Span<const double> place, uint32_t rank) const;

  // The best `count` points inside the box, best first.
  std::vector<Hit> Nearest(absl::Span<const double> query, const Box& box, size_t count) const;
  // The best one alone, without an allocation. Its rank is the maximum if the box is empty.
  Hit Nearest(absl::Span<const double> query, const Box& box) const;

  size_t axes() const { return axes_; }
  size_t size() const { return ranks_.size(); }
  // In the tree's order: what Over takes.
  absl::Span<const double> coordinates() const { return coordinates_; }
  absl::Span<const uint32_t> ranks() const { return ranks_; }

 private:
  template <typename Best>
  struct Search;

  explicit PointTree(size_t axes) : axes_(axes) {}
  void Arrange(size_t begin, size_t end, size_t axis, absl::Span<const double> coordinates,
               std::vector<uint32_t>& order);

  const size_t axes_;
  absl::Span<const uint32_t> ranks_;
  absl::Span<const double> coordinates_;  // of ranks_, in the tree's order
  // The arrays behind the two spans, unless this tree was made by Over().
  std::vector<uint32_t> own_ranks_;
  std::vector<double> own_coordinates_;
};

}  // namespace tune::lookup
