// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "client/report/format.h"
#include "client/report/roofline_view.h"
#include "client/report/svg_style.h"

namespace tune::client {
namespace {

constexpr Series kTrials = 0;
constexpr Series kDefault = 1;
constexpr Series kBest = 2;
constexpr Series kSecondLevel = 3;
constexpr Series kThirdLevel = 4;
constexpr Series kAgain = 5;
constexpr Series kInvalid = 7;

// The coordinates of a point: FLOPs per byte of a level and FLOP/s.
struct Place {
  double intensity = 0;
  double rate = 0;
};

double FlopsOf(const v1::Roofline& roofline, const v1::RooflinePoint& point) {
  double counted = 0;
  for (const v1::ResourceUse& use : point.uses()) {
    if (use.resource() == v1::ROOFLINE_RESOURCE_COMPUTE && use.counted()) counted += use.amount();
  }
  return counted > 0 ? counted : roofline.declared_flops();
}

std::optional<Place> PlaceOf(const v1::Roofline& roofline, const v1::RooflinePoint& point,
                             v1::RooflineResource level) {
  const double seconds = point.trial().measurement().latency_ns_median() * 1e-9;
  if (!(seconds > 0)) return std::nullopt;
  double intensity = 0;
  for (const v1::ResourceUse& use : point.uses()) {
    if (use.resource() == level) intensity = use.intensity();
  }
  if (intensity == 0 && level == v1::ROOFLINE_RESOURCE_DRAM && roofline.declared_bytes() > 0) {
    intensity = roofline.declared_flops() / roofline.declared_bytes();
  }
  const double flops = FlopsOf(roofline, point);
  if (!(intensity > 0) || !(flops > 0)) return std::nullopt;
  return Place{intensity, flops / seconds};
}

std::string TitleOf(const v1::RooflinePoint& point) {
  const v1::Measurement& m = point.trial().measurement();
  return fmt::format("trial {}: {}, {} of its roof\n{}", point.trial().id(),
                     LatencyText(m.latency_ns_median()), PercentText(point.efficiency()),
                     ToText(point.trial().config()));
}

bool IsMemory(const std::string& ceiling) {
  return ceiling.rfind("dram", 0) == 0 || ceiling == "l1" || ceiling == "l2" || ceiling == "l3" ||
         ceiling == "shared";
}

// The ceilings that the points are held against, by name.
std::map<std::string, double> RoofsOf(const v1::Roofline& roofline) {
  std::map<std::string, double> roofs;
  for (const v1::RooflinePoint& point : roofline.points()) {
    for (const v1::ResourceUse& use : point.uses()) {
      if (use.resource() != v1::ROOFLINE_RESOURCE_LAUNCH) roofs[use.ceiling()] = use.roof();
    }
  }
  return roofs;
}

std::string RoofLabel(const std::string& name, double value) {
  return fmt::format("{} {}", name, SiText(value, IsMemory(name) ? "B/s" : "FLOP/s"));
}

// Slanted lines for memory up to the highest peak, flat lines for arithmetic from where the fastest
// memory reaches them.
void AddRoofs(const std::map<std::string, double>& roofs, double x_min, double x_max,
              SvgChart& chart) {
  double peak = 0;
  double bandwidth = 0;
  for (const auto& [name, value] : roofs) {
    (IsMemory(name) ? bandwidth : peak) = std::max(IsMemory(name) ? bandwidth : peak, value);
  }
  for (const auto& [name, value] : roofs) {
    ChartLine line{.series = kNeutral, .label = RoofLabel(name, value)};
    if (IsMemory(name)) {
      const double end = peak > 0 ? std::min(peak / value, x_max) : x_max;
      line.points = {{x_min, x_min * value}, {end, end * value}};
      line.label_at_end = false;
    } else {
      const double begin = bandwidth > 0 ? value / bandwidth : x_min;
      line.points = {{std::max(begin, x_min), value}, {x_max, value}};
    }
    chart.lines.push_back(std::move(line));
  }
}

struct Extent {
  double x_min = 0;
  double x_max = 0;
  double y_min = 0;
  double y_max = 0;
};

// The points and the ridge with room round them, for what is drawn to be read.
Extent ExtentOf(const std::vector<Place>& places, const std::map<std::string, double>& roofs) {
  Extent extent{.x_min = 1e300, .y_min = 1e300};
  for (const Place& place : places) {
    extent.x_min = std::min(extent.x_min, place.intensity);
    extent.x_max = std::max(extent.x_max, place.intensity);
    extent.y_min = std::min(extent.y_min, place.rate);
    extent.y_max = std::max(extent.y_max, place.rate);
  }
  double peak = 0;
  double slowest = 1e300;
  for (const auto& [name, value] : roofs) {
    if (IsMemory(name)) slowest = std::min(slowest, value);
    if (!IsMemory(name)) peak = std::max(peak, value);
  }
  if (peak > 0 && slowest < 1e300) {
    extent.x_min = std::min(extent.x_min, peak / slowest);
    extent.x_max = std::max(extent.x_max, peak / slowest);
  }
  extent.y_max = std::max(extent.y_max, peak);
  extent.x_min /= 8;
  extent.x_max *= 8;
  extent.y_min /= 3;
  extent.y_max *= 2;
  return extent;
}

void SetAxes(const Extent& extent, SvgChart& chart) {
  chart.x = {.label = "arithmetic intensity, FLOP per byte",
             .scale = Scale::kLog,
             .min = extent.x_min,
             .max = extent.x_max};
  chart.y = {.unit = "FLOP/s", .scale = Scale::kLog, .min = extent.y_min, .max = extent.y_max};
}

ChartPoints::Point MakePoint(double x, double y, const v1::RooflinePoint& point) {
  return {.x = x,
          .y = y,
          .title = TitleOf(point),
          .hollow = point.verdict() == v1::ROOFLINE_VERDICT_INVALID_ROOF,
          .trial = point.trial().id()};
}

std::string MarkText(const char* name, const v1::RooflinePoint& point) {
  return fmt::format("{} {}", name, LatencyText(point.trial().measurement().latency_ns_median()));
}

// The best and the default, which are larger, and the trials on top of them, so that they hide
// none; each at `place(point)`.
template <typename PlaceFunction>
void AddTrials(const v1::Roofline& roofline, SvgChart& chart, PlaceFunction place) {
  ChartPoints trials{.name = "trials", .series = kTrials, .radius = 3};
  ChartPoints again{.name = "measured again at the end",
                    .series = kAgain,
                    .shape = Shape::kTriangle,
                    .radius = 3};
  ChartPoints invalid{.name = "above the roof: not believed", .series = kInvalid, .radius = 4};
  ChartPoints marked_default{
      .name = "default", .series = kDefault, .shape = Shape::kDiamond, .radius = 5};
  ChartPoints best{.name = "best", .series = kBest, .shape = Shape::kSquare, .radius = 5};
  for (const v1::RooflinePoint& point : roofline.points()) {
    const std::optional<Place> at = place(point);
    if (!at) continue;
    ChartPoints::Point drawn = MakePoint(at->intensity, at->rate, point);
    const int64_t id = point.trial().id();
    if (id == roofline.best_trial_id()) {
      drawn.label = MarkText("best", point);
      best.points.push_back(drawn);
    } else if (id == roofline.default_trial_id()) {
      drawn.label = MarkText("default", point);
      marked_default.points.push_back(drawn);
    } else {
      const bool confirms = point.trial().purpose() == v1::TRIAL_PURPOSE_CONFIRM;
      (drawn.hollow ? invalid : confirms ? again : trials).points.push_back(drawn);
    }
  }
  for (ChartPoints* points : {&best, &marked_default, &trials, &again, &invalid}) {
    if (!points->points.empty()) chart.points.push_back(std::move(*points));
  }
}

// The best at its other levels: equal height, other intensities.
void AddLevels(const v1::Roofline& roofline, SvgChart& chart) {
  const v1::RooflinePoint* best = FindPoint(roofline, roofline.best_trial_id());
  if (best == nullptr) return;
  for (const auto& [level, name, series] :
       {std::tuple(v1::ROOFLINE_RESOURCE_L2, "best, bytes of L2", kSecondLevel),
        std::tuple(v1::ROOFLINE_RESOURCE_L1, "best, bytes of L1", kThirdLevel)}) {
    bool counted = false;
    for (const v1::ResourceUse& use : best->uses()) counted |= use.resource() == level;
    const std::optional<Place> at = PlaceOf(roofline, *best, level);
    if (!counted || !at) continue;
    chart.points.push_back({.name = name,
                            .series = series,
                            .shape = Shape::kSquare,
                            .radius = 5,
                            .points = {MakePoint(at->intensity, at->rate, *best)}});
  }
}

std::string DeviceText(const v1::Roofline& roofline) {
  const v1::Sweep& sweep = roofline.sweep();
  return fmt::format("{}, driver {}, {}", sweep.device_name(), roofline.driver(),
                     roofline.compiler());
}

// For kernels that do no arithmetic worth naming: bytes per second in the order of the search.
SvgChart BandwidthChart(const v1::Roofline& roofline) {
  SvgChart chart;
  chart.x = {.label = "trial, in the order of the search", .whole = true};
  chart.y = {.unit = "B/s", .min = 0.0};
  double number = 0;
  AddTrials(roofline, chart, [&](const v1::RooflinePoint& point) -> std::optional<Place> {
    const double ns = point.trial().measurement().latency_ns_median();
    ++number;
    if (!(ns > 0)) return std::nullopt;
    return Place{number, roofline.declared_bytes() / ns * 1e9};
  });
  for (const auto& [name, value] : RoofsOf(roofline)) {
    if (IsMemory(name))
      chart.references.push_back({.value = value, .label = RoofLabel(name, value)});
  }
  return chart;
}

}  // namespace

SvgChart RooflineChart(const v1::Roofline& roofline, v1::RooflineResource level) {
  const bool dram = level == v1::ROOFLINE_RESOURCE_DRAM;
  std::vector<v1::RooflineResource> levels = {level};
  if (dram) levels.insert(levels.end(), {v1::ROOFLINE_RESOURCE_L2, v1::ROOFLINE_RESOURCE_L1});
  std::vector<Place> places;
  for (const v1::RooflinePoint& point : roofline.points()) {
    for (const v1::RooflineResource shown : levels) {
      if (const auto place = PlaceOf(roofline, point, shown)) places.push_back(*place);
    }
  }
  SvgChart chart;
  if (places.empty()) {
    if (dram) chart = BandwidthChart(roofline);
  } else {
    const std::map<std::string, double> roofs = RoofsOf(roofline);
    const Extent extent = ExtentOf(places, roofs);
    SetAxes(extent, chart);
    AddRoofs(roofs, extent.x_min, extent.x_max, chart);
    AddTrials(roofline, chart,
              [&](const v1::RooflinePoint& point) { return PlaceOf(roofline, point, level); });
    if (dram) AddLevels(roofline, chart);
  }
  chart.title = SubjectText(roofline.sweep());
  chart.subtitle = dram ? DeviceText(roofline) : fmt::format("by the bytes of {}", ToText(level));
  chart.description = roofline.diagnosis();
  return chart;
}

SvgChart LatencyChart(const v1::Roofline& roofline) {
  SvgChart chart{.title = "Latency of all trials",
                 .subtitle = SubjectText(roofline.sweep()),
                 .x = {.label = "trial, in the order of the search", .whole = true},
                 .y = {.unit = "s", .scale = Scale::kLog},
                 .height = 400};
  double number = 0;
  AddTrials(roofline, chart, [&](const v1::RooflinePoint& point) -> std::optional<Place> {
    const double ns = point.trial().measurement().latency_ns_median();
    ++number;
    if (!(ns > 0)) return std::nullopt;
    return Place{number, ns * kSecondsPerNs};
  });
  const v1::RooflinePoint* best = FindPoint(roofline, roofline.best_trial_id());
  if (best != nullptr && best->floor_ns() > 0) {
    chart.references.push_back(
        {.value = best->floor_ns() * kSecondsPerNs,
         .label = fmt::format("least time at the roof {}", LatencyText(best->floor_ns()))});
  }
  return chart;
}

SvgChart ReportChart(const v1::RooflineReport& report) {
  if (report.rooflines().empty()) return {.title = "no sweeps"};
  const v1::Roofline& first = report.rooflines(0);
  if (report.rooflines_size() == 1) return RooflineChart(first);
  SvgChart chart{.title = fmt::format("Best of each problem on {}", first.sweep().device_name()),
                 .subtitle = DeviceText(first)};
  std::vector<Place> places;
  std::map<std::string, double> roofs;
  std::map<std::string, ChartPoints> kernels;
  for (const v1::Roofline& roofline : report.rooflines()) {
    if (roofline.sweep().device_name() != first.sweep().device_name()) continue;
    const v1::RooflinePoint* best = FindPoint(roofline, roofline.best_trial_id());
    if (best == nullptr) continue;
    const auto place = PlaceOf(roofline, *best, v1::ROOFLINE_RESOURCE_DRAM);
    if (!place) continue;
    places.push_back(*place);
    for (const v1::ResourceUse& use : best->uses()) {
      if (use.resource() != v1::ROOFLINE_RESOURCE_LAUNCH) roofs[use.ceiling()] = use.roof();
    }
    ChartPoints::Point point = MakePoint(place->intensity, place->rate, *best);
    point.title = fmt::format("{}\n{}", SubjectText(roofline.sweep()), roofline.diagnosis());
    ChartPoints& group = kernels[roofline.sweep().kernel_name()];
    group.name = roofline.sweep().kernel_name();
    group.points.push_back(std::move(point));
    chart.description += SubjectText(roofline.sweep()) + ": " + roofline.diagnosis() + ". ";
  }
  if (places.empty()) return chart;
  const Extent extent = ExtentOf(places, roofs);
  SetAxes(extent, chart);
  AddRoofs(roofs, extent.x_min, extent.x_max, chart);
  Series series = 0;
  for (auto& [name, points] : kernels) {
    points.series = series++;
    points.radius = 5;
    chart.points.push_back(std::move(points));
  }
  return chart;
}

}  // namespace tune::client
