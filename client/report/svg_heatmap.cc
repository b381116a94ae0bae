// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "client/report/svg_chart.h"
#include "client/report/svg_style.h"

namespace tune::client {
namespace {

constexpr double kRowPx = 34;
constexpr double kGapPx = 2;
constexpr double kStrong = 0.6;  // under white text

struct Range {
  double low = 0;
  double high = 0;
};

Range RangeOf(const SvgHeatmap& heatmap) {
  Range range;
  bool any = false;
  for (const auto& row : heatmap.cells) {
    for (const SvgHeatmap::Cell& cell : row) {
      if (!cell.known || !std::isfinite(cell.value)) continue;
      range.low = any ? std::min(range.low, cell.value) : cell.value;
      range.high = any ? std::max(range.high, cell.value) : cell.value;
      any = true;
    }
  }
  return range;
}

// 1 for the best value, 0.08 for the worst: in both themes the best stands out.
double Strength(const Range& range, double value) {
  if (range.high <= range.low) return 1;
  const bool log = range.low > 0;
  const double share = log ? std::log(value / range.low) / std::log(range.high / range.low)
                           : (value - range.low) / (range.high - range.low);
  return 1 - 0.92 * std::clamp(share, 0.0, 1.0);
}

}  // namespace

std::string ToSvg(const SvgHeatmap& heatmap) {
  const size_t columns = std::max<size_t>(heatmap.columns.size(), 1);
  double widest = 0;
  for (const std::string& row : heatmap.rows) widest = std::max(widest, TextWidthPx(row));
  const double left = kPadding + (heatmap.row_label.empty() ? 0 : kFontPx + 8) + widest + 8;
  const double top = BodyTop(heatmap.title, heatmap.subtitle) + 8;
  const double cell_px = (heatmap.width - kPadding - left) / static_cast<double>(columns);
  const double bottom = top + kRowPx * static_cast<double>(heatmap.rows.size());
  const int height = static_cast<int>(bottom + 2 * kFontPx + 24 + kPadding);
  const Range range = RangeOf(heatmap);

  std::string out =
      SvgHead(heatmap.width, height, heatmap.title, heatmap.subtitle, heatmap.description);
  for (size_t r = 0; r < heatmap.rows.size() && r < heatmap.cells.size(); ++r) {
    const double y = top + kRowPx * static_cast<double>(r);
    out += SvgText(left - 8, y + kRowPx / 2 + 4, heatmap.rows[r], "t", Anchor::kEnd);
    for (size_t c = 0; c < heatmap.columns.size() && c < heatmap.cells[r].size(); ++c) {
      const SvgHeatmap::Cell& cell = heatmap.cells[r][c];
      const double x = left + cell_px * static_cast<double>(c);
      const double strength = cell.known ? Strength(range, cell.value) : 0;
      out += fmt::format(
          "<g class=\"{}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{:.1f}\" rx=\"3\" fill=\"currentColor\" fill-opacity=\"{:.2f}\">",
          cell.known ? "s0" : "sn", x, y, cell_px - kGapPx, kRowPx - kGapPx,
          cell.known ? 0.85 * strength : 0.06);
      out += "<title>" + EscapeXml(cell.title) + "</title></rect></g>\n";
      if (TextWidthPx(cell.text) < cell_px - 6) {
        out += SvgText(x + (cell_px - kGapPx) / 2, y + kRowPx / 2 + 3, cell.text,
                       strength > kStrong ? "on" : "em", Anchor::kMiddle);
      }
    }
  }
  for (size_t c = 0; c < heatmap.columns.size(); ++c) {
    const double x = left + cell_px * (static_cast<double>(c) + 0.5);
    out += SvgText(x, bottom + kFontPx + 6, heatmap.columns[c], "t", Anchor::kMiddle);
  }
  out += SvgText((left + heatmap.width - kPadding) / 2, height - kPadding + 2, heatmap.column_label,
                 "t", Anchor::kMiddle);
  if (!heatmap.row_label.empty()) {
    out += SvgText(kPadding + kFontPx - 2, (top + bottom) / 2, heatmap.row_label, "t",
                   Anchor::kMiddle, -90);
  }
  return out + "</svg>\n";
}

}  // namespace tune::client
