// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics/change_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tuner/statistics/distributions.h"
#include "tuner/statistics/series.h"

namespace tune {
namespace {

constexpr double kGenerous = 10;  // times p_max in the first pass
constexpr size_t kSideLeast = 2;  // values, for a variance

using Values = std::vector<double>;

Values Slice(const Values& values, size_t begin, size_t end) {
  return Values(values.begin() + static_cast<std::ptrdiff_t>(begin),
                values.begin() + static_cast<std::ptrdiff_t>(end));
}

// Sums of |x - y| over pairs. They come from sums of rows and columns that follow the split as it
// moves.
struct Split {
  size_t index = 0;
  double q = -std::numeric_limits<double>::infinity();
};

// The split of [begin, end) with the greatest E-divisive statistic
// q = mn/(m+n) * (2 mean|x-y| - mean|x-x'| - mean|y-y'|).
Split BestSplit(const Values& values, size_t begin, size_t end) {
  double within_left = 0;
  double within_right = 0;
  double between = 0;
  const auto to = [&](size_t i, size_t from, size_t until) {
    double sum = 0;
    for (size_t j = from; j < until; ++j) sum += std::abs(values[i] - values[j]);
    return sum;
  };
  for (size_t i = begin; i < end; ++i) within_right += to(i, begin, i);
  Split best;
  for (size_t k = begin + 1; k < end; ++k) {
    const size_t moved = k - 1;  // goes over to the left side
    const double to_left = to(moved, begin, moved);
    const double to_right = to(moved, k, end);
    within_left += to_left;
    within_right -= to_right;
    between += to_right - to_left;
    const auto m = static_cast<double>(k - begin);
    const auto n = static_cast<double>(end - k);
    if (k - begin < kSideLeast || end - k < kSideLeast) continue;
    const double q = m * n / (m + n) *
                     (2 * between / (m * n) - within_left / (m * (m - 1) / 2) -
                      within_right / (n * (n - 1) / 2));
    if (q > best.q) best = {.index = k, .q = q};
  }
  return best;
}

class Finder {
 public:
  Finder(const Values& values, const ChangePointOptions& options)
      : values_(values), options_(options) {}

  // Splits [begin, end) as long as the generous test finds something.
  void Divide(size_t begin, size_t end) {
    if (end - begin < 2 * kSideLeast) return;
    // A long quiet series must not hide a short change. So one window is searched at a time, and
    // half of it overlaps the next.
    const size_t width = 2 * options_.window;
    if (end - begin > width) {
      for (size_t at = begin; at < end; at += options_.window) {
        const size_t stop = std::min(at + width, end);
        if (DivideOnce(at, stop, begin, end)) return;
        if (stop == end) return;
      }
      return;
    }
    DivideOnce(begin, end, begin, end);
  }

  std::vector<ChangePoint> Prune() {
    std::sort(indices_.begin(), indices_.end());
    while (!indices_.empty()) {
      std::vector<ChangePoint> points = Evaluate();
      std::optional<size_t> weakest;
      for (size_t i = 0; i < points.size(); ++i) {
        if (Holds(points[i])) continue;
        if (!weakest || points[i].p > points[*weakest].p) weakest = i;
      }
      if (!weakest) return points;
      indices_.erase(indices_.begin() + static_cast<std::ptrdiff_t>(*weakest));
    }
    return {};
  }

 private:
  bool DivideOnce(size_t from, size_t to, size_t begin, size_t end) {
    const Split split = BestSplit(values_, from, to);
    if (split.index == 0) return false;
    const double p = WelchP(Slice(values_, from, split.index), Slice(values_, split.index, to));
    if (p > kGenerous * options_.p_max) return false;
    if (std::find(indices_.begin(), indices_.end(), split.index) != indices_.end()) return false;
    indices_.push_back(split.index);
    Divide(begin, split.index);
    Divide(split.index, end);
    return true;
  }

  std::vector<ChangePoint> Evaluate() const {
    std::vector<ChangePoint> points;
    for (size_t i = 0; i < indices_.size(); ++i) {
      const size_t index = indices_[i];
      size_t from = i == 0 ? 0 : indices_[i - 1];
      size_t to = i + 1 < indices_.size() ? indices_[i + 1] : values_.size();
      if (index - from > options_.window) from = index - options_.window;
      to = std::min(to, index + options_.window);
      const Values before = Slice(values_, from, index);
      const Values after = Slice(values_, index, to);
      points.push_back({.index = index,
                        .before = MeanOf(before),
                        .after = MeanOf(after),
                        .p = WelchP(before, after)});
    }
    return points;
  }

  bool Holds(const ChangePoint& point) const {
    return point.p <= options_.p_max &&
           std::abs(point.after / point.before - 1) >= options_.least_change;
  }

  const Values& values_;
  const ChangePointOptions& options_;
  std::vector<size_t> indices_;
};

}  // namespace

double WelchP(const Values& a, const Values& b) {
  if (a.size() < 2 || b.size() < 2) return 1;
  const double difference = std::abs(MeanOf(a) - MeanOf(b));
  const auto share = [](const Values& values) {
    const double deviation = StandardDeviation(values);
    return deviation * deviation / static_cast<double>(values.size());
  };
  const double share_a = share(a);
  const double share_b = share(b);
  if (share_a + share_b == 0) return difference == 0 ? 1 : 0;
  // Welch-Satterthwaite.
  const double degrees = (share_a + share_b) * (share_a + share_b) /
                         (share_a * share_a / static_cast<double>(a.size() - 1) +
                          share_b * share_b / static_cast<double>(b.size() - 1));
  return 2 * StudentCdf(-difference / std::sqrt(share_a + share_b), degrees);
}

double PairedP(const Values& log_ratios) {
  if (log_ratios.size() < 3) return 1;
  const double mean = MeanOf(log_ratios);
  const auto count = static_cast<double>(log_ratios.size());
  const double error = StandardDeviation(log_ratios) / std::sqrt(count);
  if (error == 0) return mean == 0 ? 1 : 0;
  return 2 * StudentCdf(-std::abs(mean) / error, count - 1);
}

std::vector<ChangePoint> FindChangePoints(const Values& values, const ChangePointOptions& options) {
  Finder finder(values, options);
  finder.Divide(0, values.size());
  return finder.Prune();
}

}  // namespace tune
