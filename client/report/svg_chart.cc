// SPDX-License-Identifier: Apache-2.0
#include "client/report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "client/report/chart_scale.h"
#include "client/report/svg_style.h"

namespace tune::client {
namespace {

constexpr double kLegendRowPx = 20;
constexpr double kKeyPx = 18;
constexpr double kLabelRowPx = 15;
constexpr double kDegreesPerRadian = 57.29577951308232;

// The legend: one entry per name, in order of first use.
struct LegendEntry {
  std::string name;
  Series series = 0;
  enum class Kind { kLine, kBand, kPoints } kind = Kind::kLine;
  Shape shape = Shape::kCircle;
  bool dashed = false;
};

std::vector<LegendEntry> LegendOf(const SvgChart& chart) {
  std::vector<LegendEntry> entries;
  const auto add = [&](LegendEntry entry) {
    const bool known = std::any_of(entries.begin(), entries.end(), [&](const LegendEntry& other) {
      return other.name == entry.name && other.series == entry.series;
    });
    if (!entry.name.empty() && !known) entries.push_back(std::move(entry));
  };
  for (const ChartPoints& points : chart.points) {
    add({points.name, points.series, LegendEntry::Kind::kPoints, points.shape});
  }
  for (const ChartLine& line : chart.lines) {
    add({.name = line.name, .series = line.series, .dashed = line.dashed});
  }
  for (const ChartBand& band : chart.bands) {
    add({band.name, band.series, LegendEntry::Kind::kBand});
  }
  return entries;
}

std::string Marker(Shape shape, double x, double y, double r, bool hollow) {
  const std::string paint = hollow ? "fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\""
                                   : "fill=\"currentColor\" fill-opacity=\"0.8\"";
  switch (shape) {
    case Shape::kCircle:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" {}", x, y, r, paint);
    case Shape::kSquare:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}",
                         x - r, y - r, 2 * r, 2 * r, paint);
    case Shape::kDiamond:
      return fmt::format(
          "<path d=\"M{:.1f} {:.1f}l{r:.1f} {r:.1f} -{r:.1f} {r:.1f} -{r:.1f} "
          "-{r:.1f}z\" {}",
          x, y - 1.3 * r, paint, fmt::arg("r", 1.3 * r));
    case Shape::kTriangle:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l{:.1f} {:.1f}h-{:.1f}z\" {}", x, y - 1.2 * r,
                         1.2 * r, 2.1 * r, 2.4 * r, paint);
    case Shape::kCross:
      return fmt::format(
          "<path d=\"M{:.1f} {:.1f}l{d:.1f} {d:.1f}m0 -{d:.1f}l-{d:.1f} {d:.1f}\" fill=\"none\" "
          "stroke=\"currentColor\" stroke-width=\"1.5\"",
          x - r, y - r, fmt::arg("d", 2 * r));
  }
  return "";
}

class Drawing {
 public:
  explicit Drawing(const SvgChart& chart);
  std::string Draw();

 private:
  void PlaceLegend();
  void DrawGrid();
  void DrawAxisNames();
  void DrawLegend();
  void DrawBand(const ChartBand& band);
  void DrawLine(const ChartLine& line);
  void DrawLineLabel(const ChartLine& line, const std::vector<XY>& pixels);
  void DrawReference(const ChartReference& reference);
  void DrawPoints(const ChartPoints& points);
  void DrawPointLabels();

  std::vector<double> Values(bool of_x) const;
  std::vector<XY> Pixels(const std::vector<XY>& points, bool step) const;
  bool Shows(double x, double y) const { return x_->Shows(x) && y_->Shows(y); }
  XY At(double x, double y) const { return {x_->Pixel(x), y_->Pixel(y)}; }
  bool Inside(XY at) const {
    return at.x >= left_ - 1 && at.x <= right_ + 1 && at.y >= top_ - 1 && at.y <= bottom_ + 1;
  }

  const SvgChart& chart_;
  std::string out_;
  std::string clip_;
  std::vector<LegendEntry> legend_;
  std::vector<XY> legend_at_;
  double left_ = 0;
  double right_ = 0;
  double top_ = 0;
  double bottom_ = 0;
  bool slanted_names_ = false;  // of the x axis' categories
  std::unique_ptr<ChartScale> x_;
  std::unique_ptr<ChartScale> y_;
  // Beside the point `at`, `gap` pixels away.
  struct PointLabel {
    XY at;
    double gap = 0;
    std::string text;
  };
  std::vector<PointLabel> point_labels_;
};

std::vector<double> Drawing::Values(bool of_x) const {
  std::vector<double> values;
  for (const ChartBand& band : chart_.bands) {
    for (const ChartBand::Range& range : band.points) {
      if (of_x) values.push_back(range.x);
      if (!of_x) values.insert(values.end(), {range.low, range.high});
    }
  }
  for (const ChartLine& line : chart_.lines) {
    for (const XY& point : line.points) values.push_back(of_x ? point.x : point.y);
  }
  for (const ChartPoints& points : chart_.points) {
    for (const ChartPoints::Point& p : points.points) values.push_back(of_x ? p.x : p.y);
  }
  for (const ChartReference& reference : chart_.references) {
    if (of_x == (reference.kind == ChartReference::Kind::kVertical)) {
      values.push_back(reference.value);
    }
  }
  return values;
}

Drawing::Drawing(const SvgChart& chart) : chart_(chart), legend_(LegendOf(chart)) {
  // Pictures in one page share one namespace of ids.
  clip_ = fmt::format("clip{:x}", std::hash<std::string>()(chart.title + chart.subtitle +
                                                           chart.x.label + chart.y.label));
  right_ = chart.width - kPadding;
  const ChartScale y(chart.y, Values(false), 1, 0);
  double widest = 0;
  for (const ChartTick& tick : y.Ticks()) widest = std::max(widest, TextWidthPx(tick.text));
  left_ = kPadding + (chart.y.label.empty() ? 0 : kFontPx + 6) + widest + 8;
  PlaceLegend();
  double names = 0;
  double widest_name = 0;
  for (const std::string& name : chart.x.categories) {
    names += TextWidthPx(name) + 10;
    widest_name = std::max(widest_name, TextWidthPx(name));
  }
  slanted_names_ = names > right_ - left_;
  bottom_ = chart.height - kPadding - kFontPx - 8 - (chart.x.label.empty() ? 0 : kFontPx + 8) -
            (slanted_names_ ? std::min(widest_name * 0.6, chart.height * 0.3) : 0);
  bottom_ = std::max(bottom_, top_ + 20);
  x_ = std::make_unique<ChartScale>(chart.x, Values(true), left_, right_);
  y_ = std::make_unique<ChartScale>(chart.y, Values(false), bottom_, top_);
}

void Drawing::PlaceLegend() {
  double x = kPadding;
  double y = BodyTop(chart_.title, chart_.subtitle) + 8;
  for (const LegendEntry& entry : legend_) {
    const double width = kKeyPx + 6 + TextWidthPx(entry.name) + 18;
    if (x > kPadding && x + width > right_) {
      x = kPadding;
      y += kLegendRowPx;
    }
    legend_at_.push_back({x, y});
    x += width;
  }
  top_ = legend_.empty() ? BodyTop(chart_.title, chart_.subtitle) + 8 : y + kLegendRowPx;
}

void Drawing::DrawLegend() {
  for (size_t i = 0; i < legend_.size(); ++i) {
    const LegendEntry& entry = legend_[i];
    const auto [x, y] = legend_at_[i];
    out_ += fmt::format("<g class=\"{}\">", SeriesClass(entry.series));
    switch (entry.kind) {
      case LegendEntry::Kind::kLine:
        out_ += fmt::format(
            "<path d=\"M{:.1f} {:.1f}h{}\" stroke=\"currentColor\" "
            "stroke-width=\"2\"{}/>",
            x, y, kKeyPx, entry.dashed ? " stroke-dasharray=\"5 4\"" : "");
        break;
      case LegendEntry::Kind::kBand:
        out_ += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"10\" "
            "fill=\"currentColor\" fill-opacity=\"0.2\"/>",
            x, y - 5, kKeyPx);
        break;
      case LegendEntry::Kind::kPoints:
        out_ += Marker(entry.shape, x + kKeyPx / 2, y, 4.5, false) + "/>";
        break;
    }
    out_ += "</g>\n" + SvgText(x + kKeyPx + 6, y + 4, entry.name, "t");
  }
}

void Drawing::DrawGrid() {
  for (const ChartTick& tick : y_->Ticks()) {
    const double y = y_->Pixel(tick.value);
    out_ += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"{}/>\n", left_, y, right_,
                        tick.text.empty() ? " stroke-opacity=\"0.5\"" : "");
    if (!tick.text.empty()) out_ += SvgText(left_ - 8, y + 4, tick.text, "t", Anchor::kEnd);
  }
  double free_from = 0;  // numbers must not touch
  for (const ChartTick& tick : x_->Ticks()) {
    const double x = x_->Pixel(tick.value);
    const double half = TextWidthPx(tick.text) / 2;
    out_ += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"{}/>\n", x, top_, bottom_,
                        tick.text.empty() ? " stroke-opacity=\"0.5\"" : "");
    if (slanted_names_) {
      out_ += SvgText(x + 4, bottom_ + kFontPx + 4, tick.text, "t", Anchor::kEnd, -35);
    } else if (!tick.text.empty() && x - half >= free_from) {
      out_ += SvgText(x, bottom_ + kFontPx + 6, tick.text, "t", Anchor::kMiddle);
      free_from = x + half + 6;
    }
  }
  out_ += fmt::format("<path class=\"axis\" fill=\"none\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>\n",
                      left_, top_, bottom_, right_);
}

void Drawing::DrawAxisNames() {
  if (!chart_.x.label.empty()) {
    out_ += SvgText((left_ + right_) / 2, chart_.height - kPadding + 2, chart_.x.label, "t",
                    Anchor::kMiddle);
  }
  if (!chart_.y.label.empty()) {
    out_ += SvgText(kPadding + kFontPx - 2, (top_ + bottom_) / 2, chart_.y.label, "t",
                    Anchor::kMiddle, -90);
  }
}

std::vector<XY> Drawing::Pixels(const std::vector<XY>& points, bool step) const {
  std::vector<XY> pixels;
  for (const XY& point : points) {
    if (!Shows(point.x, point.y)) continue;
    const XY at = At(point.x, point.y);
    if (step && !pixels.empty()) pixels.push_back({at.x, pixels.back().y});
    pixels.push_back(at);
  }
  return pixels;
}

void Drawing::DrawBand(const ChartBand& band) {
  std::vector<XY> low;
  std::vector<XY> high;
  for (const ChartBand::Range& range : band.points) {
    low.push_back({range.x, range.low});
    high.push_back({range.x, range.high});
  }
  std::vector<XY> outline = Pixels(high, band.step);
  const std::vector<XY> back = Pixels(low, band.step);
  outline.insert(outline.end(), back.rbegin(), back.rend());
  if (outline.empty()) return;
  std::string path;
  for (const XY& at : outline)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at.x, at.y);
  out_ +=
      fmt::format("<path class=\"{}\" fill=\"currentColor\" fill-opacity=\"0.18\" d=\"{}z\"/>\n",
                  SeriesClass(band.series), path);
}

void Drawing::DrawLine(const ChartLine& line) {
  const std::vector<XY> pixels = Pixels(line.points, line.step);
  if (pixels.empty()) return;
  std::string path;
  for (const XY& at : pixels)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at.x, at.y);
  out_ += fmt::format(
      "<path class=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" "
      "stroke-linejoin=\"round\"{} d=\"{}\"/>\n",
      SeriesClass(line.series), line.dashed ? " stroke-dasharray=\"5 4\"" : "", path);
}

// Along the first or last stretch of the line that lies inside the plot, above it.
void Drawing::DrawLineLabel(const ChartLine& line, const std::vector<XY>& pixels) {
  const double length = TextWidthPx(line.label, 11) + 8;
  for (size_t i = 0; i + 1 < pixels.size(); ++i) {
    const size_t n = line.label_at_end ? pixels.size() - 2 - i : i;
    XY from = pixels[n];
    XY to = pixels[n + 1];
    const double dx = to.x - from.x;
    const double dy = to.y - from.y;
    if (dx <= 0) continue;
    // Cut to the plot.
    double begin = std::max(0.0, (left_ - from.x) / dx);
    double end = std::min(1.0, (right_ - from.x) / dx);
    if (dy != 0) {
      const double a = (bottom_ - from.y) / dy;
      const double b = (top_ - from.y) / dy;
      begin = std::max(begin, std::min(a, b));
      end = std::min(end, std::max(a, b));
    }
    const double visible = (end - begin) * std::hypot(dx, dy);
    if (end <= begin || visible < length) continue;
    const double share = 6 / std::hypot(dx, dy);
    const double at = line.label_at_end ? end - share : begin + share;
    const double degrees = std::atan2(dy, dx) * kDegreesPerRadian;
    const double up_x = dy / std::hypot(dx, dy) * 5;
    const double up_y = -dx / std::hypot(dx, dy) * 5;
    out_ += fmt::format("<g class=\"{}\" fill=\"currentColor\" font-size=\"11\">",
                        SeriesClass(line.series));
    out_ += SvgText(from.x + at * dx + up_x, from.y + at * dy + up_y, line.label, "halo",
                    line.label_at_end ? Anchor::kEnd : Anchor::kStart, degrees) +
            "</g>\n";
    return;
  }
}

void Drawing::DrawReference(const ChartReference& reference) {
  const bool vertical = reference.kind == ChartReference::Kind::kVertical;
  if (vertical ? !x_->Shows(reference.value) : !y_->Shows(reference.value)) return;
  const double at = vertical ? x_->Pixel(reference.value) : y_->Pixel(reference.value);
  const bool inside = vertical ? at >= left_ && at <= right_ : at >= top_ && at <= bottom_;
  if (!inside) return;
  const std::string path = vertical ? fmt::format("M{:.1f} {:.1f}V{:.1f}", at, top_, bottom_)
                                    : fmt::format("M{:.1f} {:.1f}H{:.1f}", left_, at, right_);
  out_ += fmt::format(
      "<g class=\"{}\"><path d=\"{}\" stroke=\"currentColor\" stroke-width=\"1.5\" "
      "stroke-dasharray=\"6 4\"/>",
      SeriesClass(reference.series), path);
  out_ += "<g fill=\"currentColor\" font-size=\"11\">";
  if (vertical) {
    const bool room = at + TextWidthPx(reference.label, 11) + 8 < right_;
    out_ += SvgText(room ? at + 5 : at - 5, top_ + 12, reference.label, "halo",
                    room ? Anchor::kStart : Anchor::kEnd);
  } else {
    out_ += SvgText(right_ - 4, at - 5 > top_ + 10 ? at - 5 : at + 13, reference.label, "halo",
                    Anchor::kEnd);
  }
  out_ += "</g></g>\n";
}

void Drawing::DrawPoints(const ChartPoints& points) {
  out_ += fmt::format("<g class=\"{}\">\n", SeriesClass(points.series));
  for (const ChartPoints::Point& point : points.points) {
    if (!Shows(point.x, point.y)) continue;
    const XY at = At(point.x, point.y);
    if (!Inside(at)) continue;
    out_ += Marker(points.shape, at.x, at.y, points.radius, point.hollow);
    if (point.trial != 0) out_ += fmt::format(" data-trial=\"{}\"", point.trial);
    out_ += point.title.empty() ? "/>\n"
                                : "><title>" + EscapeXml(point.title) + "</title>" +
                                      (points.shape == Shape::kCircle   ? "</circle>\n"
                                       : points.shape == Shape::kSquare ? "</rect>\n"
                                                                        : "</path>\n");
    if (!point.label.empty()) point_labels_.push_back({at, points.radius + 5, point.label});
  }
  out_ += "</g>\n";
}

// In the order of their points from the top down: a label that would touch the one above is moved
// below it.
void Drawing::DrawPointLabels() {
  std::stable_sort(point_labels_.begin(), point_labels_.end(),
                   [](const PointLabel& a, const PointLabel& b) { return a.at.y < b.at.y; });
  double free_from = 0;
  for (const PointLabel& label : point_labels_) {
    const auto& [at, gap, text] = label;
    const double y = std::max(at.y, free_from);
    free_from = y + kLabelRowPx;
    const bool room = at.x + gap + TextWidthPx(text) + 3 < right_;
    out_ += SvgText(room ? at.x + gap : at.x - gap, y + 4, text, "em halo",
                    room ? Anchor::kStart : Anchor::kEnd);
  }
}

std::string Drawing::Draw() {
  out_ = SvgHead(chart_.width, chart_.height, chart_.title, chart_.subtitle, chart_.description);
  const bool empty = Values(true).empty() || Values(false).empty();
  out_ += fmt::format(
      "<clipPath id=\"{}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{:.1f}\"/></clipPath>\n",
      clip_, left_, top_, right_ - left_, bottom_ - top_);
  DrawGrid();
  DrawAxisNames();
  DrawLegend();
  out_ += fmt::format("<g clip-path=\"url(#{})\">\n", clip_);
  for (const ChartBand& band : chart_.bands) DrawBand(band);
  for (const ChartLine& line : chart_.lines) DrawLine(line);
  out_ += "</g>\n";
  for (const ChartReference& reference : chart_.references) DrawReference(reference);
  for (const ChartPoints& points : chart_.points) DrawPoints(points);
  DrawPointLabels();
  for (const ChartLine& line : chart_.lines) {
    if (!line.label.empty()) DrawLineLabel(line, Pixels(line.points, line.step));
  }
  if (empty) {
    out_ += SvgText((left_ + right_) / 2, (top_ + bottom_) / 2, "nothing to show", "t",
                    Anchor::kMiddle);
  }
  return out_ + "</svg>\n";
}

}  // namespace

std::string ToSvg(const SvgChart& chart) { return Drawing(chart).Draw(); }

}  // namespace tune::client
