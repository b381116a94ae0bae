// SPDX-License-Identifier: Apache-2.0
#include "lookup/point_tree.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tune::lookup {
namespace {

using testing::ElementsAreArray;
using testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The same by looking at every point.
std::vector<PointTree::Hit> Scan(size_t axes, const std::vector<double>& coordinates,
                                 const std::vector<double>& query, const PointTree::Box& box,
                                 size_t count) {
  std::vector<PointTree::Hit> hits;
  for (uint32_t i = 0; i < coordinates.size() / axes; ++i) {
    double distance = 0;
    bool inside = true;
    for (size_t axis = 0; axis < axes; ++axis) {
      const double at = coordinates[i * axes + axis];
      inside &= at >= box.low[axis] && at <= box.high[axis];
      distance += std::abs(at - query[axis]);
    }
    if (inside) hits.push_back({distance, i});
  }
  std::sort(hits.begin(), hits.end());
  hits.resize(std::min(hits.size(), count));
  return hits;
}

TEST(PointTreeTest, AgreesWithAScanOnManyTies) {
  std::mt19937 random(7);
  for (size_t axes : {1, 2, 3, 5}) {
    for (size_t count : {0, 1, 5, 9, 100, 2000}) {
      // Distinct points of a small grid: many are equally near, none at the same place.
      std::vector<std::vector<double>> grid;
      const int side = axes == 1 ? 3000 : axes == 2 ? 60 : axes == 3 ? 14 : 5;
      for (int i = 0; i < std::pow(side, axes); ++i) {
        std::vector<double>& point = grid.emplace_back();
        for (size_t axis = 0, rest = static_cast<size_t>(i); axis < axes; ++axis) {
          point.push_back(static_cast<double>(rest % static_cast<size_t>(side)));
          rest /= static_cast<size_t>(side);
        }
      }
      std::shuffle(grid.begin(), grid.end(), random);
      grid.resize(std::min(grid.size(), count));
      std::vector<double> coordinates;
      for (const auto& point : grid) {
        coordinates.insert(coordinates.end(), point.begin(), point.end());
      }
      std::vector<uint32_t> ranks(grid.size());
      std::iota(ranks.begin(), ranks.end(), 0u);
      PointTree tree(axes, coordinates, ranks);
      ASSERT_EQ(tree.size(), grid.size());
      for (int i = 0; i < 50; ++i) {
        std::vector<double> query, low, high;
        for (size_t axis = 0; axis < axes; ++axis) {
          query.push_back(static_cast<double>(random() % 2000) / 1000 * side);
          low.push_back(i % 2 == 0 ? -kInfinity : std::floor(query.back()) - i % 5);
          high.push_back(i % 2 == 0 ? kInfinity : std::floor(query.back()) + i % 3);
        }
        const PointTree::Box box = {low, high};
        const auto expected = Scan(axes, coordinates, query, box, 16);
        ASSERT_THAT(tree.Nearest(query, box, 16), ElementsAreArray(expected));
        const PointTree::Hit best = tree.Nearest(query, box);
        ASSERT_EQ(best, expected.empty() ? PointTree::Hit() : expected[0]);
      }
    }
  }
}

TEST(PointTreeTest, KeepsTheLowestRankOfAPlace) {
  PointTree tree(1, {2.0, 1.0, 2.0, 2.0}, {9, 8, 3, 5});
  EXPECT_EQ(tree.size(), 2u);
  const std::vector<double> low = {-kInfinity}, high = {kInfinity}, query = {2.0};
  EXPECT_EQ(tree.Nearest(query, {low, high}).rank, 3u);
}

TEST(PointTreeTest, WithoutAxesThereIsOnePlace) {
  PointTree tree(0, {}, {4, 2});
  EXPECT_EQ(tree.Nearest({}, {}).rank, 2u);
  EXPECT_EQ(tree.Nearest({}, {}).distance, 0);
  EXPECT_EQ(tree.Nearest({}, {}, 5).size(), 1u);
  PointTree empty(0, {}, {});
  EXPECT_THAT(empty.Nearest({}, {}, 5), IsEmpty());
}

}  // namespace
}  // namespace tune::lookup
