// SPDX-License-Identifier: Apache-2.0
// From values to positions on a chart, and where the ticks go.
#pragma once

#include <string>
#include <vector>

#include "client/report/svg_chart.h"

namespace tune::client {

struct ChartTick {
  double value = 0;
  std::string text;  // empty: a minor tick, a line without a number
};

class ChartScale {
 public:
  // From `low_pixel` to `high_pixel` shows the axis' limits, or the values it has to show where
  // the axis has none. `values` may hold what cannot be shown.
  ChartScale(const ChartAxis& axis, const std::vector<double>& values, double low_pixel,
             double high_pixel);

  // Can the axis show this at all?
  bool Shows(double value) const;
  // Outside the limits too: the caller clips.
  double Pixel(double value) const;
  double min() const { return min_; }
  double max() const { return max_; }
  std::vector<ChartTick> Ticks() const;

 private:
  std::vector<ChartTick> LinearTicks() const;
  std::vector<ChartTick> LogTicks() const;

  const ChartAxis& axis_;
  const double low_pixel_;
  const double high_pixel_;
  double min_ = 0;
  double max_ = 1;
};

}  // namespace tune::client
