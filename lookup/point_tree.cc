// SPDX-License-Identifier: Apache-2.0
#include "lookup/point_tree.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace tune::lookup {
namespace {

// Shorter ranges are scanned: a jump costs more than a few comparisons.
constexpr size_t kLeafSize = 8;

// The best hit alone.
class BestOne {
 public:
  double limit() const { return best_.distance; }
  void Offer(PointTree::Hit hit) { best_ = std::min(best_, hit); }
  PointTree::Hit best() const { return best_; }

 private:
  PointTree::Hit best_;
};

// The best few, as a heap with the worst of them on top.
class BestFew {
 public:
  explicit BestFew(size_t count) : count_(count) {}
  double limit() const {
    return hits_.size() < count_ ? std::numeric_limits<double>::infinity() : hits_.front().distance;
  }
  void Offer(PointTree::Hit hit) {
    if (hits_.size() == count_) {
      if (hit >= hits_.front()) return;
      std::pop_heap(hits_.begin(), hits_.end());
      hits_.pop_back();
    }
    hits_.push_back(hit);
    std::push_heap(hits_.begin(), hits_.end());
  }
  std::vector<PointTree::Hit> Sorted() {
    std::sort_heap(hits_.begin(), hits_.end());
    return std::move(hits_);
  }

 private:
  const size_t count_;
  std::vector<PointTree::Hit> hits_;
};

}  // namespace

PointTree::PointTree(size_t axes, absl::Span<const double> coordinates, std::vector<uint32_t> ranks)
    : axes_(axes) {
  auto point = [&](uint32_t i) { return coordinates.subspan(i * axes, axes); };
  std::vector<uint32_t> order(ranks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const absl::Span<const double> left = point(a), right = point(b);
    if (left != right) return left < right;
    return ranks[a] < ranks[b];
  });
  order.erase(std::unique(order.begin(), order.end(),
                          [&](uint32_t a, uint32_t b) { return point(a) == point(b); }),
              order.end());
  Arrange(0, order.size(), 0, coordinates, order);  // without axes there is one point at most
  own_ranks_.reserve(order.size());
  own_coordinates_.reserve(order.size() * axes);
  for (uint32_t i : order) {
    own_ranks_.push_back(ranks[i]);
    own_coordinates_.insert(own_coordinates_.end(), point(i).begin(), point(i).end());
  }
  ranks_ = own_ranks_;
  coordinates_ = own_coordinates_;
}

PointTree PointTree::Over(size_t axes, absl::Span<const double> coordinates,
                          absl::Span<const uint32_t> ranks) {
  PointTree tree(axes);
  tree.coordinates_ = coordinates;
  tree.ranks_ = ranks;
  return tree;
}

PointTree PointTree::With(absl::Span<const double> place, uint32_t rank) const {
  std::vector<double> coordinates(coordinates_.begin(), coordinates_.end());
  coordinates.insert(coordinates.end(), place.begin(), place.end());
  std::vector<uint32_t> ranks(ranks_.begin(), ranks_.end());
  ranks.push_back(rank);
  return PointTree(axes_, coordinates, std::move(ranks));
}

void PointTree::Arrange(size_t begin, size_t end, size_t axis, absl::Span<const double> coordinates,
                        std::vector<uint32_t>& order) {
  if (end - begin <= kLeafSize) return;
  const size_t middle = begin + (end - begin) / 2;
  auto at = [&](size_t i) { return order.begin() + static_cast<ptrdiff_t>(i); };
  std::nth_element(at(begin), at(middle), at(end), [&](uint32_t a, uint32_t b) {
    return coordinates[a * axes_ + axis] < coordinates[b * axes_ + axis];
  });
  const size_t next_axis = (axis + 1) % axes_;
  Arrange(begin, middle, next_axis, coordinates, order);
  Arrange(middle + 1, end, next_axis, coordinates, order);
}

template <typename Best>
struct PointTree::Search {
  const PointTree& tree;
  const absl::Span<const double> query;
  const Box& box;
  Best& best;

  void Offer(size_t i) {
    const double* point = tree.coordinates_.data() + i * tree.axes_;
    double distance = 0;
    for (size_t axis = 0; axis < tree.axes_; ++axis) {
      if (point[axis] < box.low[axis] || point[axis] > box.high[axis]) return;
      distance += std::abs(point[axis] - query[axis]);
    }
    best.Offer({distance, tree.ranks_[i]});
  }

  void Visit(size_t begin, size_t end, size_t axis) {
    if (end - begin <= kLeafSize) {
      for (size_t i = begin; i < end; ++i) Offer(i);
      return;
    }
    const size_t middle = begin + (end - begin) / 2;
    const double split = tree.coordinates_[middle * tree.axes_ + axis];
    const size_t next_axis = (axis + 1) % tree.axes_;
    const bool lower_first = query[axis] < split;
    Offer(middle);
    for (bool lower : {lower_first, !lower_first}) {
      // Points as near as the best so far may still be of lower rank, hence no "or equal".
      if (lower != lower_first && std::abs(query[axis] - split) > best.limit()) return;
      if (lower ? box.low[axis] <= split : box.high[axis] >= split) {
        lower ? Visit(begin, middle, next_axis) : Visit(middle + 1, end, next_axis);
      }
    }
  }
};

PointTree::Hit PointTree::Nearest(absl::Span<const double> query, const Box& box) const {
  BestOne best;
  Search<BestOne> search{*this, query, box, best};
  search.Visit(0, ranks_.size(), 0);
  return best.best();
}

std::vector<PointTree::Hit> PointTree::Nearest(absl::Span<const double> query, const Box& box,
                                               size_t count) const {
  BestFew best(count);
  Search<BestFew> search{*this, query, box, best};
  search.Visit(0, ranks_.size(), 0);
  return best.Sorted();
}

}  // namespace tune::lookup
