// SPDX-License-Identifier: Apache-2.0
// Reports in their formats; the pages run in tests/client/report/report_page_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/report/comparison_view.h"
#include "client/report/fusion_view.h"
#include "client/report/html_page.h"
#include "client/report/html_text.h"
#include "client/report/markdown.h"
#include "client/report/roofline_view.h"
#include "client/report/sweep_report_view.h"
#include "tests/client/report/report_fixture.h"

namespace tune::client {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

size_t PointsOf(const SvgChart& chart) {
  size_t count = 0;
  for (const ChartPoints& points : chart.points) count += points.points.size();
  return count;
}

TEST(RooflineChart, HasEveryTimedTrialOnceAndTheBestAtEachLevel) {
  const SvgChart chart = RooflineChart(SketchRoofline(1));
  EXPECT_EQ(PointsOf(chart), 37u + 2u);  // and the best by its bytes of L2 and L1
  std::vector<std::string> roofs;
  for (const ChartLine& line : chart.lines) roofs.push_back(line.label);
  EXPECT_THAT(roofs, testing::UnorderedElementsAre("dram_copy 4.2 TB/s", "f32 60 TFLOP/s",
                                                   "l1 30 TB/s", "l2 9 TB/s"));
  for (const ChartPoints& points : chart.points) {
    if (points.name != "best") continue;
    ASSERT_EQ(points.points.size(), 1u);
    EXPECT_EQ(points.points[0].label, "best 250.0 us");
    EXPECT_NEAR(points.points[0].x, 1 / 1.5, 1e-9);  // counted bytes, not the declared ones
    EXPECT_NEAR(points.points[0].y, 1e9 / 250e-6, 1);
  }
}

TEST(RooflineChart, WhatIsNotBelievedIsHollow) {
  const SvgChart chart = RooflineChart(SketchRoofline(1));
  size_t hollow = 0;
  for (const ChartPoints& points : chart.points) {
    for (const ChartPoints::Point& point : points.points) hollow += point.hollow;
  }
  EXPECT_EQ(hollow, 1u);
  EXPECT_THAT(ToSvg(chart), HasSubstr("above the roof: not believed"));
}

TEST(RooflineChart, WithoutFlopsItShowsBandwidth) {
  v1::Roofline roofline = SketchRoofline(1);
  roofline.set_declared_flops(0);
  for (v1::RooflinePoint& point : *roofline.mutable_points()) {
    for (v1::ResourceUse& use : *point.mutable_uses()) use.set_intensity(0);
    if (point.uses_size() > 0) point.mutable_uses()->RemoveLast();  // compute
  }
  const SvgChart chart = RooflineChart(roofline);
  EXPECT_EQ(chart.y.unit, "B/s");
  EXPECT_EQ(PointsOf(chart), 37u);
  EXPECT_EQ(chart.references.size(), 3u);
}

TEST(RooflineReport, SeveralSweepsAreOnePictureOfTheirBests) {
  EXPECT_EQ(PointsOf(ReportChart(SketchReport(3))), 3u);
  EXPECT_EQ(PointsOf(ReportChart(SketchReport(1))), 39u);
  EXPECT_EQ(PointsOf(ReportChart(v1::RooflineReport())), 0u);
}

TEST(RooflineReport, TextsHaveDiagnosisEvidenceAndNotes) {
  const std::string terminal = TerminalText(SketchReport(1));
  for (const char* part :
       {"sketch rows=1024 bf16", "NVIDIA H200", "driver 580.1", "memory-bound", "counted",
        "36 well used, 1 above the roof, 3 not ok", "stale: measured 31 days ago"}) {
    EXPECT_THAT(terminal, HasSubstr(part));
  }
  const std::string markdown = MarkdownText(SketchReport(2), "roofline.svg");
  EXPECT_THAT(markdown, HasSubstr("![Rooflines](roofline.svg)"));
  EXPECT_THAT(markdown, HasSubstr("| problem | best | of roof | binds | verdict |"));
  EXPECT_EQ(CountOf(markdown, "### sketch rows="), 2u);
  EXPECT_THAT(MarkdownText(SketchReport(1), ""), Not(HasSubstr("![")));
}

TEST(Markdown, CellsCannotEndTheirRowOrCallPeople) {
  EXPECT_EQ(MarkdownCell("a|b\nc"), "a\\|b c");
  EXPECT_THAT(MarkdownCell(kHostileText), Not(HasSubstr("<")));
  EXPECT_THAT(MarkdownCell(kHostileText), Not(HasSubstr("@everyone")));
  EXPECT_EQ(MarkdownTable({"x"}, {{"`A=1|2`"}}), "| x |\n| --- |\n| `A=1\\|2` |\n");
}

TEST(SweepReport, EveryFormatHasEffectsHeatMapTimeLineAndOutcomes) {
  const v1::SweepReport report = SketchSweepReport();
  const std::string terminal = TerminalText(report);
  for (const char* part : {"BLOCK", "50.0 %", "1.25x", "BLOCK against STAGES", "compile_failed",
                           "6.667 us", "note: a note"}) {
    EXPECT_THAT(terminal, HasSubstr(part));
  }
  const std::string markdown = MarkdownText(report, "sweep.svg");
  EXPECT_THAT(markdown, HasSubstr("| BLOCK | 50.0 % |"));
  EXPECT_THAT(markdown, Not(HasSubstr("<img")));
  const std::string svg = SvgText(report);
  EXPECT_EQ(CountOf(svg, "<svg"), 4u);
  EXPECT_EQ(CountOf(svg, "</svg>"), 4u);
  EXPECT_THAT(svg, HasSubstr("BLOCK=2"));
  EXPECT_THAT(svg, HasSubstr("no config that was ok"));
}

TEST(SweepReport, AFailedSweepSaysWhy) {
  v1::SweepReport report;
  report.mutable_sweep()->set_state(v1::JOB_STATE_FAILED);
  report.mutable_sweep()->set_message("the reference kernel does not compile");
  for (const std::string& text : {TerminalText(report), MarkdownText(report, "")}) {
    EXPECT_THAT(text, HasSubstr("failed: the reference kernel does not compile"));
    EXPECT_THAT(text, HasSubstr("none: no config was tried"));
    EXPECT_THAT(text, Not(HasSubstr("driver")));
    EXPECT_THAT(text, Not(HasSubstr("| outcome |")));
  }
  EXPECT_THAT(TerminalText(report), Not(HasSubstr("each improvement")));
  report.mutable_sweep()->set_state(v1::JOB_STATE_DONE);
  report.mutable_sweep()->clear_message();
  EXPECT_THAT(TerminalText(report), Not(HasSubstr("state ")));
}

TEST(SweepReport, NoSpeedupIsClaimedInNoise) {
  v1::SweepReport report = SketchSweepReport();
  v1::SweepResult& result = *report.mutable_sweep()->mutable_result();
  result.set_default_verdict("the best is 1.50 times as fast");
  EXPECT_THAT(TerminalText(report), HasSubstr(": the best is 1.50 times as fast)"));
  result.set_default_verdict("too few rounds to say which is faster");
  result.set_too_noisy(true);
  EXPECT_THAT(TerminalText(report), HasSubstr("the host was too noisy to tell"));
  EXPECT_THAT(TerminalText(report), HasSubstr(": too few rounds to say which is faster)"));
  EXPECT_THAT(TerminalText(report), Not(HasSubstr("times as fast")));
}

TEST(Comparison, EveryFormatHasRatiosRatesAndWhatDiffers) {
  const v1::Comparison comparison = SketchComparison();
  EXPECT_FALSE(AllRight(comparison));
  const std::string terminal = TerminalText(comparison);
  for (const char* part : {"250.0 us", "[240.0 us, 260.0 us]", "2.000 [1.900, 2.100]", "4 TB/s",
                           "80.0 %", "!differs", "roof: 5 TB/s of memory, measured",
                           "at rows=32: its results differ against the reference of sketch"}) {
    EXPECT_THAT(terminal, HasSubstr(part));
  }
  const std::string csv = CsvText(comparison);
  EXPECT_EQ(CountOf(csv, "\n"), 7u + 3 * CountOf(kHostileText, "\n"));
  EXPECT_THAT(csv, HasSubstr("comparison,device,target,driver,dtype,rows,kernel,"));
  EXPECT_THAT(csv, HasSubstr(",ok,7,250000,240000,260000,1,1,1,4e+12,,0.8\n"));
  const std::string markdown = MarkdownText(comparison, "c.svg");
  EXPECT_THAT(markdown, HasSubstr("![Comparison](c.svg)"));
  EXPECT_THAT(markdown, HasSubstr("| rows | kernel | median |"));
  EXPECT_THAT(markdown, Not(HasSubstr("<img")));
}

TEST(Comparison, TheSourcesOfConfigsAreSaidOnceForManySizes) {
  v1::Comparison comparison = SketchComparison();
  for (int i = 0; i < comparison.problems_size(); ++i) {
    v1::ComparedKernel& kernel = *comparison.mutable_problems(i)->mutable_kernels(0);
    kernel.set_label("one");
    kernel.set_config_source(i == 1 ? "exact: this problem was tuned on a GPU"
                                    : absl::StrCat("nearest on a GPU: rows is ", i, " x"));
  }
  const std::string text = TerminalText(comparison);
  EXPECT_THAT(text, HasSubstr("one: config: nearest on a GPU at rows=8, 32"));
  EXPECT_THAT(text, HasSubstr("one: config: exact at rows=16"));
  EXPECT_EQ(CountOf(text, "one: config: nearest"), 1u);
  comparison.mutable_problems()->DeleteSubrange(1, 2);
  EXPECT_THAT(TerminalText(comparison), HasSubstr("one: config: nearest on a GPU: rows is 0 x"));
}

TEST(Comparison, TheFaultOfAKernelIsSaidOnce) {
  v1::Comparison comparison = SketchComparison();
  v1::ComparedKernel& kernel = *comparison.mutable_problems(0)->mutable_kernels(1);
  kernel.set_outcome(v1::OUTCOME_WRONG_RESULT);
  kernel.set_message("y at 7 is 2");
  kernel.set_agreement(v1::OUTCOME_WRONG_RESULT);
  kernel.set_agreement_message("against the reference of sketch: y at 7 is 2");
  for (const std::string& text : {TerminalText(comparison), MarkdownText(comparison, "")}) {
    EXPECT_EQ(CountOf(text, "y at 7 is 2"), 1u) << text;
  }
}

TEST(Comparison, APictureHasALineForEachKernelAndTheRoof) {
  const SvgChart chart = ComparisonChart(SketchComparison());
  ASSERT_EQ(chart.lines.size(), 3u);
  EXPECT_EQ(chart.lines[0].points.size(), 3u);
  EXPECT_DOUBLE_EQ(chart.lines[0].points[2].x, 32);
  EXPECT_DOUBLE_EQ(chart.lines[0].points[2].y, 4e12);
  EXPECT_EQ(chart.lines[2].name, "roof");
  EXPECT_DOUBLE_EQ(chart.lines[2].points[0].y, 5e12);
  EXPECT_EQ(PointsOf(chart), 6u);
  EXPECT_TRUE(chart.points[1].points[2].hollow) << "its result differs";
  v1::Comparison one = SketchComparison();
  one.clear_sweep_dim();
  one.mutable_problems()->DeleteSubrange(1, 2);
  EXPECT_EQ(ComparisonChart(one).x.categories.size(), 2u);
  EXPECT_EQ(ComparisonChart(one).references.size(), 1u);
}

TEST(Comparison, APictureWithSlowKernelsUnderAFarRoofHasALogarithmicAxis) {
  v1::Comparison comparison = SketchComparison();
  EXPECT_EQ(ComparisonChart(comparison).y.scale, Scale::kLinear);
  EXPECT_TRUE(ComparisonChart(comparison).y.min.has_value());
  for (v1::ComparedProblem& problem : *comparison.mutable_problems()) {
    for (v1::ComparedKernel& kernel : *problem.mutable_kernels()) {
      v1::Measurement& measured = *kernel.mutable_measurement();
      measured.set_latency_ns_median(30 * measured.latency_ns_median());
    }
  }
  EXPECT_EQ(ComparisonChart(comparison).y.scale, Scale::kLog);
  EXPECT_FALSE(ComparisonChart(comparison).y.min.has_value());
}

TEST(Fusions, EveryFormatHasRatiosSharesAndWhatIsMissing) {
  const v1::FusionReport report = SketchFusions();
  for (const std::string& text : {TerminalText(report), MarkdownText(report, "")}) {
    EXPECT_THAT(text, HasSubstr("1.28"));
    EXPECT_THAT(text, HasSubstr("add, rmsnorm"));
    EXPECT_THAT(text, HasSubstr("36 x"));
    // 3 of 10 ms, and 2 of 9.
    EXPECT_THAT(text, HasSubstr("30.0 %"));
    EXPECT_THAT(text, HasSubstr("22.2 %"));
    EXPECT_THAT(text, HasSubstr("save 1.000 ms of 10.00 ms, 10.0 %"));
    EXPECT_THAT(text, HasSubstr("2 kernels of fusions are not measured"));
    EXPECT_THAT(text, HasSubstr("a note of the daemon"));
  }
  EXPECT_THAT(TerminalText(report), HasSubstr("1.28 [1.25, 1.31]"));
  EXPECT_THAT(MarkdownText(report, "x.svg"), HasSubstr("![Fusions](x.svg)"));
  EXPECT_THAT(MarkdownText(report, ""), Not(HasSubstr("<img")));
  const SvgChart chart = FusionChart(report);
  ASSERT_EQ(chart.points.size(), 2u);
  EXPECT_EQ(chart.points[0].points.size(), 2u);
  EXPECT_TRUE(chart.points[0].points[0].hollow);  // bytes that nobody counted
  EXPECT_EQ(chart.points[1].points.size(), 1u);   // the other was not timed
}

TEST(HtmlOfMarkdown, KeepsStructureAndEscapesText) {
  const std::string markdown = absl::StrCat(
      "## a title\n\n![Picture](1)\n![Unknown](7)\n**bold** and ", MarkdownCell(kHostileText), "\n",
      MarkdownTable({"x", "y"}, {{"a|b_c", "`A=1|2`"}}), "\n> <b>a note\n");
  EXPECT_EQ(HtmlOfMarkdown(markdown, {"<svg>0</svg>", "<svg>1</svg>"}),
            absl::StrCat("<h1>a title</h1>\n<figure>\n<svg>1</svg></figure>\n<p><b>bold</b> and ",
                         EscapeXml(kHostileText),
                         "</p>\n<div class=\"scroll\"><table>\n"
                         "<tr><th>x</th><th>y</th></tr>\n"
                         "<tr><td>a|b_c</td><td><code>A=1|2</code></td></tr>\n</table></div>\n"
                         "<p class=\"note\">&lt;b&gt;a note</p>\n"));
}

TEST(HtmlOfMarkdown, ListsAreLists) {
  EXPECT_EQ(HtmlOfMarkdown("a\n\n- **b**: c\n- d\n\ne\n", {}),
            "<p>a</p>\n<ul>\n<li><b>b</b>: c</li>\n<li>d</li>\n</ul>\n<p>e</p>\n");
}

TEST(HtmlOfMarkdown, LongTextsOfATableWrap) {
  const std::string text(80, 'x');
  EXPECT_THAT(HtmlOfMarkdown(MarkdownTable({text, "y"}, {{"short", text}}), {}),
              AllOf(HasSubstr(absl::StrCat("<th>", text)), HasSubstr("<td>short</td>"),
                    HasSubstr(absl::StrCat("<td class=\"long\">", text))));
}

TEST(HtmlPage, IsOneFileThatNothingInItsDataCanBreak) {
  for (const std::string& page : {HtmlPage(SketchReport(2)), HtmlPage(SketchSweepReport()),
                                  HtmlPage(SketchComparison()), HtmlPage(SketchFusions())}) {
    EXPECT_THAT(page, Not(HasSubstr("<img")));
    EXPECT_THAT(page, HasSubstr("&lt;/script&gt;"));
    EXPECT_EQ(CountOf(page, "</script>"), 1u);  // ours
    EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
    EXPECT_THAT(page, Not(HasSubstr("{{")));
    EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  }
}

TEST(HtmlPage, HasThePicturesOfTheSvgReports) {
  const std::string roofline = HtmlPage(SketchReport(1));
  EXPECT_THAT(roofline, HasSubstr(Figure(ToSvg(RooflineChart(SketchRoofline(1))))));
  EXPECT_THAT(roofline, HasSubstr(Figure(ToSvg(LatencyChart(SketchRoofline(1))))));
  EXPECT_THAT(roofline, HasSubstr("By the bytes of L1"));
  EXPECT_EQ(CountOf(roofline, "<style>"), 1u);
  EXPECT_EQ(CountOf(HtmlPage(SketchReport(3)), "class=\"trials\""), 3u);
  EXPECT_THAT(HtmlPage(SketchReport(3)), HasSubstr(Figure(ToSvg(ReportChart(SketchReport(3))))));
  const v1::SweepReport sweep = SketchSweepReport();
  for (const std::string& picture : {ToSvg(EffectsChart(sweep)), ToSvg(PairHeatmap(sweep)),
                                     ToSvg(TimelineChart(sweep, TimelineBy::kTrials)),
                                     ToSvg(TimelineChart(sweep, TimelineBy::kSeconds))}) {
    EXPECT_THAT(HtmlPage(sweep), HasSubstr(Figure(picture)));
  }
  EXPECT_THAT(HtmlPage(SketchComparison()),
              HasSubstr(Figure(ToSvg(ComparisonChart(SketchComparison())))));
  EXPECT_THAT(HtmlPage(SketchFusions()), HasSubstr(Figure(ToSvg(FusionChart(SketchFusions())))));
}

TEST(HtmlPage, ASearchThatImprovedOnNothingHasNoPictureOfIt) {
  v1::SweepReport sweep = SketchSweepReport();
  const std::string page = HtmlPage(sweep);
  EXPECT_THAT(page, HasSubstr(">How the search went</text>"));
  EXPECT_THAT(page, HasSubstr(">How the search went, over time</text>"));
  for (v1::TimelinePoint& point : *sweep.mutable_timeline()) point.set_best_latency_ns(20e3);
  EXPECT_THAT(HtmlPage(sweep), Not(HasSubstr("How the search went")));
  sweep.clear_params();
  sweep.clear_heatmap();
  EXPECT_THAT(HtmlPage(sweep), Not(HasSubstr("<section>\n</section>")));
}

TEST(HtmlPage, EveryTrialHasItsRowItsEvidenceAndItsPoints) {
  const std::string page = HtmlPage(SketchReport(1));
  EXPECT_EQ(CountOf(page, "<tr data-trial="), 40u);
  // The 37 that were timed are in two pictures, 10 of them in those of L2 and L1, and the best is
  // in the first one at its L2 and L1, too.
  EXPECT_EQ(CountOf(page, " data-trial="), 40u + 2 * 37 + 2 * 10 + 2);
  EXPECT_THAT(page, HasSubstr("data-config=\"[&quot;BLOCK=32&quot;,&quot;STAGES=0&quot;]\""));
  EXPECT_THAT(page, HasSubstr("<dt>outcome</dt><dd>compile_failed</dd>"));
}

TEST(HtmlPage, LongMessagesAreCutBetweenCharacters) {
  v1::RooflineReport report = SketchReport(1);
  std::string message(399, 'x');
  for (int i = 0; i < 100; ++i) message += "\xE2\x82\xAC";
  report.mutable_rooflines(0)->mutable_points(39)->mutable_trial()->set_message(message);
  EXPECT_THAT(HtmlPage(report), HasSubstr(std::string(399, 'x') + "..."));
}

}  // namespace
}  // namespace tune::client
