// SPDX-License-Identifier: Apache-2.0
#include "client/report/svg_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "client/report/chart_scale.h"

namespace tune::client {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::vector<std::string> Labels(const ChartAxis& axis, double low, double high) {
  std::vector<std::string> labels;
  const ChartScale scale(axis, {low, high}, 0, 500);
  for (const ChartTick& tick : scale.Ticks()) {
    if (!tick.text.empty()) labels.push_back(tick.text);
  }
  return labels;
}

TEST(SiText, HasThreeDigitsAndAPrefix) {
  EXPECT_EQ(SiText(2e-5, "s"), "20 \xC2\xB5s");
  EXPECT_EQ(SiText(4.272e12, "B/s"), "4.27 TB/s");
  EXPECT_EQ(SiText(1000, ""), "1 k");
  EXPECT_EQ(SiText(0.25, ""), "0.25");
  EXPECT_EQ(SiText(0, "s"), "0 s");
  EXPECT_EQ(SiText(NAN, "s"), "-");
}

TEST(EscapeXml, LeavesNothingThatEndsAnAttributeOrIsNotXml) {
  EXPECT_EQ(EscapeXml("<a href=\"x\">&'</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(EscapeXml("caf\xC3\xA9 \xE2\x82\xAC"), "caf\xC3\xA9 \xE2\x82\xAC");
  EXPECT_EQ(EscapeXml(std::string("a\0b\x01\n", 5)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\n");
  EXPECT_EQ(EscapeXml("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  EXPECT_EQ(EscapeXml("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  EXPECT_EQ(EscapeXml("cut \xE2\x82"), "cut \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(ChartScale, TicksOfALinearAxisAreRound) {
  EXPECT_THAT(Labels({}, 0, 100), testing::ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(Labels({.unit = "s"}, 0, 2e-3), testing::Contains("500 \xC2\xB5s"));
}

TEST(ChartScale, TicksOfCountsAreWhole) {
  EXPECT_THAT(Labels({.whole = true}, 1, 3), testing::ElementsAre("1", "2", "3"));
}

TEST(ChartScale, TicksMayBeGiven) {
  EXPECT_THAT(Labels({.scale = Scale::kLog, .ticks = {512, 1536, 16384}}, 512, 16384),
              testing::ElementsAre("512", "1536", "16384"));
}

TEST(ChartScale, TicksOfALogAxisAreDecadesAndFillShortOnes) {
  EXPECT_THAT(Labels({.scale = Scale::kLog}, 1, 1e6),
              testing::ElementsAre("1", "10", "100", "1 k", "10 k", "100 k", "1 M"));
  EXPECT_THAT(Labels({.scale = Scale::kLog}, 1, 100),
              testing::ElementsAre("1", "2", "5", "10", "20", "50", "100"));
  EXPECT_GE(Labels({.scale = Scale::kLog}, 10, 13).size(), 3u);
  EXPECT_LE(Labels({.scale = Scale::kLog}, 1e-30, 1e30).size(), 12u);
}

TEST(ChartScale, PixelsFollowTheScale) {
  const ChartAxis log{.scale = Scale::kLog, .min = 1.0, .max = 100.0};
  const ChartScale scale(log, {}, 0, 100);
  EXPECT_DOUBLE_EQ(scale.Pixel(10), 50);
  EXPECT_FALSE(scale.Shows(0));
  EXPECT_FALSE(scale.Shows(-1));
  const ChartAxis linear{.min = 0.0, .max = 10.0};
  EXPECT_DOUBLE_EQ(ChartScale(linear, {}, 200, 100).Pixel(2.5), 175);
}

SvgChart Sample() {
  SvgChart chart{.title = "a <title> & more",
                 .description = "what it says",
                 .x = {.label = "trials"},
                 .y = {.label = "latency", .unit = "s", .scale = Scale::kLog}};
  chart.bands.push_back({.name = "quartiles", .series = 1, .points = {{1, 2, 3}, {2, 2, 4}}});
  chart.lines.push_back(
      {.name = "best", .points = {{1, 3}, {2, 2}, {3, 1}}, .step = true, .label = "best so far"});
  chart.references.push_back({.value = 1.5, .label = "floor"});
  chart.points.push_back({.name = "trials",
                          .series = 2,
                          .points = {{1, 3, "first", false, "named"},
                                     {2, 2, "second", true},
                                     {3, -1, "not positive"},
                                     {std::numeric_limits<double>::infinity(), 1, "infinite"}}});
  return chart;
}

TEST(SvgChart, DrawsWhatItIsGivenAndLeavesOutWhatCannotBeShown) {
  const std::string svg = ToSvg(Sample());
  EXPECT_THAT(svg, HasSubstr("<title>a &lt;title&gt; &amp; more</title>"));
  EXPECT_THAT(svg, HasSubstr("<desc>what it says</desc>"));
  EXPECT_THAT(svg, HasSubstr("role=\"img\""));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, HasSubstr("<title>first</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>second</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("not positive")));
  EXPECT_THAT(svg, Not(HasSubstr("infinite")));
  EXPECT_THAT(svg, HasSubstr(">named</text>"));
  EXPECT_THAT(svg, HasSubstr(">floor</text>"));
  EXPECT_THAT(svg, HasSubstr(">best so far</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_EQ(Count(svg, "<svg"), 1u);
  EXPECT_EQ(Count(svg, "<g"), Count(svg, "</g>"));
  EXPECT_EQ(Count(svg, "<text"), Count(svg, "</text>"));
}

TEST(SvgChart, AStepLineKeepsItsValueUntilTheNextPoint) {
  SvgChart chart{.x = {.min = 0.0, .max = 2.0}, .y = {.min = 0.0, .max = 2.0}};
  chart.lines.push_back({.points = {{0, 2}, {1, 1}, {2, 0}}, .step = true});
  std::smatch match;
  const std::string svg = ToSvg(chart);
  ASSERT_TRUE(std::regex_search(
      svg, match, std::regex("d=\"M([\\d.]+) ([\\d.]+)L([\\d.]+) ([\\d.]+)L([\\d.]+) ([\\d.]+)")));
  EXPECT_EQ(match[2], match[4]);  // along
  EXPECT_EQ(match[3], match[5]);  // then down
}

TEST(SvgChart, LabelsAreInTheOrderOfTheirPoints) {
  SvgChart chart{.x = {.min = 0.0, .max = 10.0}, .y = {.min = 0.0, .max = 1000.0}};
  chart.points.push_back({.points = {{.x = 1, .y = 500, .label = "lower"}}});
  chart.points.push_back({.points = {{.x = 1, .y = 501, .label = "higher"}}});
  const std::string svg = ToSvg(chart);
  const auto height = [&](const std::string& label) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(svg, found, std::regex(" y=\"([0-9.]+)\"[^>]*>" + label)));
    return std::stod(found[1]);
  };
  EXPECT_GE(height("lower") - height("higher"), 10);
}

TEST(SvgChart, WithNothingToShowItSaysSo) {
  EXPECT_THAT(ToSvg(SvgChart{.title = "empty"}), HasSubstr("nothing to show"));
}

TEST(SvgChart, NumbersOfANarrowAxisDiffer) {
  SvgChart chart{.y = {.unit = "s"}};
  chart.lines.push_back({.points = {{0, 0.01245}, {1, 0.01255}}});
  const std::string svg = ToSvg(chart);
  EXPECT_THAT(svg, HasSubstr(">12.48 ms<"));
  EXPECT_THAT(svg, HasSubstr(">12.5 ms<"));
  EXPECT_EQ(Count(svg, ">12.5 ms<"), 1u);
}

TEST(SvgHeatmap, ShowsEachCellAndTheBestStrongest) {
  SvgHeatmap heatmap{.title = "two",
                     .column_label = "STAGES",
                     .row_label = "BLOCK",
                     .columns = {"1", "2"},
                     .rows = {"64", "<128>"}};
  heatmap.cells = {{{true, 1, "1 us", "best"}, {true, 10, "10 us", "worst"}},
                   {{true, 3, "3 us", ""}, {false, 0, "none", "no trial"}}};
  const std::string svg = ToSvg(heatmap);
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.85\"><title>best</title>"));
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.07\"><title>worst</title>"));
  EXPECT_THAT(svg, HasSubstr("&lt;128&gt;"));
  EXPECT_EQ(Count(svg, "<rect"), 5u);
}

}  // namespace
}  // namespace tune::client
