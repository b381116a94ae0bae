// SPDX-License-Identifier: Apache-2.0
#include "client/report/chart_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tune::client {
namespace {

constexpr double kRoom = 0.04;       // of the data's span, on each side
constexpr double kLinearTicks = 6;   // about
constexpr double kTickSlack = 1e-9;  // of a step: 0.1 + 0.2 is a tick of 0.1 steps

// 1, 2 or 5 times a power of ten, at least `least`.
double NiceStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - kTickSlack)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

ChartScale::ChartScale(const ChartAxis& axis, const std::vector<double>& values, double low_pixel,
                       double high_pixel)
    : axis_(axis), low_pixel_(low_pixel), high_pixel_(high_pixel) {
  if (!axis.categories.empty()) {
    min_ = -0.5;
    max_ = static_cast<double>(axis.categories.size()) - 0.5;
    return;
  }
  const bool log = axis.scale == Scale::kLog;
  bool any = false;
  double low = log ? 1 : 0;
  double high = log ? 10 : 1;
  for (double value : values) {
    if (!Shows(value)) continue;
    low = any ? std::min(low, value) : value;
    high = any ? std::max(high, value) : value;
    any = true;
  }
  if (log) {
    const double room = high > low ? std::pow(high / low, kRoom) : 1.5;
    min_ = low / room;
    max_ = high * room;
  } else {
    const double room = high > low ? (high - low) * kRoom : std::max(std::abs(high) * 0.1, 1e-12);
    // The scale has no negative part unless a value is negative.
    min_ = low >= 0 ? std::max(0.0, low - room) : low - room;
    max_ = high + room;
  }
  if (axis.min && Shows(*axis.min)) min_ = *axis.min;
  if (axis.max && Shows(*axis.max) && *axis.max > min_) max_ = *axis.max;
  if (max_ <= min_) max_ = log ? min_ * 10 : min_ + 1;
}

bool ChartScale::Shows(double value) const {
  return std::isfinite(value) && (axis_.scale == Scale::kLinear || value > 0);
}

double ChartScale::Pixel(double value) const {
  const double share = axis_.scale == Scale::kLog ? std::log(value / min_) / std::log(max_ / min_)
                                                  : (value - min_) / (max_ - min_);
  return low_pixel_ + share * (high_pixel_ - low_pixel_);
}

std::vector<ChartTick> ChartScale::Ticks() const {
  if (!axis_.categories.empty()) {
    std::vector<ChartTick> ticks;
    for (size_t i = 0; i < axis_.categories.size(); ++i) {
      ticks.push_back({static_cast<double>(i), axis_.categories[i]});
    }
    return ticks;
  }
  if (!axis_.ticks.empty()) {
    std::vector<ChartTick> ticks;
    for (const double value : axis_.ticks) ticks.push_back({value, fmt::format("{:.0f}", value)});
    return ticks;
  }
  return axis_.scale == Scale::kLog ? LogTicks() : LinearTicks();
}

std::vector<ChartTick> ChartScale::LinearTicks() const {
  const double least = NiceStep((max_ - min_) / kLinearTicks);
  const double step = axis_.whole ? std::max(1.0, least) : least;
  std::vector<ChartTick> ticks;
  for (double n = std::ceil(min_ / step - kTickSlack); n * step <= max_ + step * kTickSlack; ++n) {
    ticks.push_back({n * step, ""});
  }
  // A narrow range needs more digits than three for its numbers to differ.
  constexpr int kDigits = 3, kDigitsMost = 8;
  bool differ = false;
  for (int digits = kDigits; !differ && digits <= kDigitsMost; ++digits) {
    differ = true;
    for (size_t i = 0; i < ticks.size(); ++i) {
      ticks[i].text = SiText(ticks[i].value, axis_.unit, digits);
      differ &= i == 0 || ticks[i].text != ticks[i - 1].text;
    }
  }
  return ticks;
}

std::vector<ChartTick> ChartScale::LogTicks() const {
  const double decades = std::log10(max_ / min_);
  if (decades < 0.7) {  // too little of a decade for 1, 2, 5 to fall into it
    return LinearTicks();
  }
  const int every = std::max(1, static_cast<int>(std::ceil(decades / 9)));
  std::vector<ChartTick> ticks;
  for (int decade = static_cast<int>(std::floor(std::log10(min_)));
       decade <= static_cast<int>(std::ceil(std::log10(max_))); ++decade) {
    for (int digit = 1; digit < 10; ++digit) {
      const double value = digit * std::pow(10, decade);
      if (value < min_ * (1 - kTickSlack) || value > max_ * (1 + kTickSlack)) continue;
      const bool fine = digit == 2 || digit == 5 || (decades < 1.3 && digit != 7 && digit != 9);
      const bool labelled = digit == 1 ? decade % every == 0 : decades < 3 && fine;
      if (!labelled && (decades > 6 || every > 1)) continue;
      ticks.push_back({value, labelled ? SiText(value, axis_.unit) : ""});
    }
  }
  return ticks;
}

}  // namespace tune::client
