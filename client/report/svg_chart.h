// SPDX-License-Identifier: Apache-2.0
// Charts as static SVG, for terminals' file viewers, CI comments and pages that run no script.
// Pure: data in, text out. Colours follow the reader's light or dark theme.
//
//   SvgChart chart{.title = "softmax: best so far", .x = {.label = "trials"},
//                  .y = {.label = "latency", .unit = "s", .scale = Scale::kLog}};
//   chart.bands.push_back({.name = "quartiles", .series = 0, .points = {{1, 2e-5, 3e-5}, ...}});
//   chart.lines.push_back({.name = "annealing", .series = 0, .points = {{1, 2.5e-5}, ...}});
//   std::string svg = ToSvg(chart);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tune::client {

enum class Scale { kLinear, kLog };

struct ChartAxis {
  std::string label;
  // Appended to each tick with an SI prefix: "s" gives "10 us", "FLOP/s" gives "2 TFLOP/s". Without
  // a unit ticks are plain numbers with a prefix: "20 k".
  std::string unit;
  Scale scale = Scale::kLinear;
  // By default from the data, with room round it.
  std::optional<double> min;
  std::optional<double> max;
  // If not empty, positions 0, 1, 2, ... stand for these names.
  std::vector<std::string> categories;
  bool whole = false;         // counts: no ticks between whole numbers
  std::vector<double> ticks;  // if not empty, these and no others, each as a plain number
};

// Which colour: equal numbers have equal colours across all charts, 0 to 7; kNeutral is grey.
using Series = int;
inline constexpr Series kNeutral = -1;

struct XY {
  double x = 0;
  double y = 0;
};

struct ChartLine {
  std::string name;  // in the legend; empty: not there
  Series series = 0;
  std::vector<XY> points;  // in drawing order
  bool step = false;       // keeps each y until the next x, as a best-so-far does
  bool dashed = false;
  // Written along the line, near its start or its end.
  std::string label;
  bool label_at_end = true;
};

// The area between low and high: quartiles, an interval.
struct ChartBand {
  struct Range {
    double x = 0;
    double low = 0;
    double high = 0;
  };
  std::string name;
  Series series = 0;
  std::vector<Range> points;
  bool step = false;
};

enum class Shape { kCircle, kSquare, kDiamond, kTriangle, kCross };

struct ChartPoints {
  struct Point {
    double x = 0;
    double y = 0;
    std::string title;    // shown where the viewer can hover
    bool hollow = false;  // not to be believed, or not of the main set
    std::string label;    // written beside it
    int64_t trial = 0;    // becomes the attribute data-trial, unless 0
  };
  std::string name;
  Series series = 0;
  Shape shape = Shape::kCircle;
  double radius = 4;
  std::vector<Point> points;
};

// A straight line across the whole plot.
struct ChartReference {
  enum class Kind { kHorizontal, kVertical };
  Kind kind = Kind::kHorizontal;
  double value = 0;
  std::string label;
  Series series = kNeutral;
};

struct SvgChart {
  std::string title;        // drawn, and the picture's accessible name
  std::string subtitle;     // drawn
  std::string description;  // what the picture says, for those who cannot see it
  ChartAxis x;
  ChartAxis y;
  // Drawn in this order; later ones lie on top.
  std::vector<ChartBand> bands;
  std::vector<ChartLine> lines;
  std::vector<ChartReference> references;
  std::vector<ChartPoints> points;
  int width = 860;
  int height = 500;
};

// A whole <svg> element. Points that the axes cannot show (not finite, or not positive on a
// logarithmic axis) are left out; a chart with nothing to show says so.
std::string ToSvg(const SvgChart& chart);

// Rows of cells coloured by value, for two parameters against each other.
struct SvgHeatmap {
  struct Cell {
    bool known = false;
    double value = 0;   // smaller is better and darker
    std::string text;   // in the cell
    std::string title;  // on hover
  };
  std::string title;
  std::string subtitle;
  std::string description;
  std::string column_label;
  std::string row_label;
  std::vector<std::string> columns;
  std::vector<std::string> rows;
  std::vector<std::vector<Cell>> cells;  // [row][column]
  int width = 860;
};

std::string ToSvg(const SvgHeatmap& heatmap);

// Text for XML and HTML, between tags and in attributes. What XML cannot hold (control characters,
// broken UTF-8) becomes U+FFFD.
std::string EscapeXml(const std::string& text);

// "20 us" of 2e-5 and "s": significant digits and an SI prefix.
std::string SiText(double value, const std::string& unit, int digits = 3);

}  // namespace tune::client
